#include "kaon/mxnet/profiler/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/error.h"
#include "kaon/ops/attributes.h"

namespace kaon::mxnet {

namespace {

Profiler& timeline() { return Engine::process_default().profiler(); }

bool flag_of(std::string_view key, std::string_view text) {
  bool flag = false;
  if (!ops::from_text(text, flag)) {
    throw ValueError(fmt::format("[profiler] {}: expected True or False, got '{}'", key, text));
  }
  return flag;
}

const char* category_of(ProfileObject::Kind kind, std::string_view domain) {
  switch (kind) {
    case ProfileObject::Kind::frame: return engine::intern(fmt::format("{},frame", domain));
    case ProfileObject::Kind::event: return "event";
    default: return engine::intern(domain);
  }
}

}  // namespace

Profile& Profile::get() {
  static constinit engine::MadeOnce<Profile> profile;
  return profile.get([] { return new Profile; });
}

void Profile::configure(std::string_view key, std::string_view text) {
  constexpr std::string_view switches[] = {"profile_all",    "profile_symbolic", "profile_imperative",
                                           "profile_memory", "profile_api",      "continuous_dump"};
  const std::scoped_lock lock(mutex_);
  if (key == "filename") {
    if (text.empty()) throw ValueError("[profiler] filename: expected a name, got ''");
    file_ = text;
  } else if (key == "aggregate_stats") {
    aggregates_ = flag_of(key, text);
  } else if (key == "dump_period") {
    double seconds = 0;
    if (!ops::from_text(text, seconds)) {
      throw ValueError(fmt::format("[profiler] dump_period: expected a number, got '{}'", text));
    }
  } else if (key == "profile_process") {
    if (text != "worker") throw ValueError("[profiler] profile_process: Kaon's stores have no servers, got 'server'");
  } else if (std::ranges::find(switches, key) != std::end(switches)) {
    flag_of(key, text);  // the engine's timeline has all kinds
  } else {
    throw ValueError(fmt::format("[profiler] there is no setting '{}'", key));
  }
}

void Profile::keep() {
  const std::vector<Profiler::Event> events = timeline().events();
  kept_.insert(kept_.end(), events.begin(), events.end());
  dropped_ += timeline().dropped();
  if (kept_.size() <= most_kept) return;
  const size_t excess = kept_.size() - most_kept;
  kept_.erase(kept_.begin(), kept_.begin() + int64_t(excess));
  dropped_ += excess;
}

void Profile::update(bool on) {
  if (on == is_on_) return;
  is_on_ = on;
  if (on) return timeline().start();
  timeline().stop();
  keep();
}

void Profile::set_running(bool running) {
  const std::scoped_lock lock(mutex_);
  is_running_ = running;
  is_paused_ = false;  // as in MXNet, to begin ends a pause
  update(is_running_);
}

void Profile::set_paused(bool paused) {
  const std::scoped_lock lock(mutex_);
  is_paused_ = paused;
  update(is_running_ && !is_paused_);
}

bool Profile::is_on() const {
  const std::scoped_lock lock(mutex_);
  return is_on_;
}

bool Profile::aggregates() const {
  const std::scoped_lock lock(mutex_);
  return aggregates_;
}

std::string Profile::file() const {
  const std::scoped_lock lock(mutex_);
  return file_;
}

void Profile::add(const ProfileSample& sample) {
  const std::scoped_lock lock(mutex_);
  if (is_on_) samples_.push_back(sample);
}

ProfileRecord Profile::record() const {
  const std::scoped_lock lock(mutex_);
  ProfileRecord all{kept_, samples_, dropped_, reset_};
  if (!is_on_) return all;
  const std::vector<Profiler::Event> events = timeline().events();
  all.events.insert(all.events.end(), events.begin(), events.end());
  all.dropped += timeline().dropped();
  return all;
}

void Profile::reset_statistics() {
  const std::scoped_lock lock(mutex_);
  if (is_on_) {
    keep();
    timeline().start();  // with room for as many events again
  }
  if (samples_.size() > most_kept) samples_.erase(samples_.begin(), samples_.end() - int64_t(most_kept));
  reset_ = Profiler::now();
}

ProfileObject::ProfileObject(Kind kind, std::string_view domain, std::string_view name)
    : kind_(kind), domain_(category_of(kind, domain)), name_(engine::intern(name)) {}

void ProfileObject::expect(bool fits, const char* what) const {
  if (!fits) throw ValueError(fmt::format("[profiler] '{}' is not {}", name_, what));
}

void ProfileObject::start() {
  expect(kind_ == Kind::task || kind_ == Kind::frame || kind_ == Kind::event, "a task, a frame or an event");
  begin_ = Profile::get().is_on() ? Profiler::now() : 0;
}

void ProfileObject::stop() {
  expect(kind_ == Kind::task || kind_ == Kind::frame || kind_ == Kind::event, "a task, a frame or an event");
  const uint64_t begin = std::exchange(begin_, 0);
  if (begin == 0 || !Profile::get().is_on()) return;
  timeline().record({.name = name_, .category = domain_, .begin = begin, .end = Profiler::now()});
}

void ProfileObject::set_value(uint64_t value) {
  expect(kind_ == Kind::counter, "a counter");
  value_.store(value);
  Profile::get().add({.domain = domain_, .name = name_, .time = Profiler::now(), .value = value});
}

void ProfileObject::adjust(int64_t by) {
  expect(kind_ == Kind::counter, "a counter");
  const uint64_t value = value_.fetch_add(uint64_t(by)) + uint64_t(by);
  Profile::get().add({.domain = domain_, .name = name_, .time = Profiler::now(), .value = value});
}

}  // namespace kaon::mxnet
