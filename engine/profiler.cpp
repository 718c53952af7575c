#include "kaon/engine/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kaon/engine/base/atomic_file.h"
#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/device/gpu.h"

namespace kaon {

using namespace engine;

// One per thread and profiler. Only its thread and readers of the events take the lock.
struct Profiler::Ring {
  static constexpr size_t capacity = 1 << 16;
  mutable SpinLock lock;
  std::vector<Event> events;
  uint64_t dropped = 0;
  uint32_t thread = 0;
};

struct Profiler::State {
  uint64_t id;
  mutable std::mutex mutex;
  std::vector<std::unique_ptr<Ring>> rings;
};

namespace {
std::atomic<uint64_t> g_next_profiler{1};
struct CachedRing {
  uint64_t profiler = 0;
  void* ring = nullptr;
};
thread_local CachedRing t_ring;  // of the profiler that this thread has used last
}  // namespace

Profiler::Profiler() : state_(new State) { state_->id = g_next_profiler.fetch_add(1); }
Profiler::~Profiler() = default;

uint64_t Profiler::now() noexcept {
  return uint64_t(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

void Profiler::start() {
  std::lock_guard lock(state_->mutex);
  for (auto& r : state_->rings) {
    std::lock_guard ring_lock(r->lock);
    r->events.clear();
    r->dropped = 0;
  }
  on_.store(true, std::memory_order_relaxed);
}

void Profiler::stop() { on_.store(false, std::memory_order_relaxed); }

Profiler::Ring& Profiler::ring() {
  if (t_ring.profiler == state_->id) return *static_cast<Ring*>(t_ring.ring);
  static std::atomic<uint32_t> next_thread{1};
  static thread_local const uint32_t thread = next_thread.fetch_add(1);
  std::lock_guard lock(state_->mutex);
  for (auto& r : state_->rings) {
    if (r->thread == thread) {
      t_ring = {state_->id, r.get()};
      return *r;
    }
  }
  state_->rings.push_back(std::make_unique<Ring>());
  state_->rings.back()->thread = thread;
  t_ring = {state_->id, state_->rings.back().get()};
  return *state_->rings.back();
}

void Profiler::record(Event event) noexcept {
  try {
    Ring& r = ring();
    if (event.thread == 0) event.thread = r.thread;
    std::lock_guard lock(r.lock);
    if (r.events.size() < Ring::capacity) {
      r.events.push_back(event);
    } else {
      ++r.dropped;
    }
  } catch (...) {
    // no memory for an event: the program matters more than its trace
  }
}

std::vector<Profiler::Event> Profiler::events() const {
  std::vector<Event> all;
  std::lock_guard lock(state_->mutex);
  for (const auto& r : state_->rings) {
    std::lock_guard ring_lock(r->lock);
    all.insert(all.end(), r->events.begin(), r->events.end());
  }
  std::sort(all.begin(), all.end(), [](const Event& a, const Event& b) { return a.begin < b.begin; });
  return all;
}

uint64_t Profiler::dropped() const {
  uint64_t n = 0;
  std::lock_guard lock(state_->mutex);
  for (const auto& r : state_->rings) {
    std::lock_guard ring_lock(r->lock);
    n += r->dropped;
  }
  return n;
}

namespace {
std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) continue;
    out += c;
  }
  return out + "\"";
}
}  // namespace

namespace {

using Event = Profiler::Event;

bool is_category(const Event& e, std::string_view category) { return e.category == category; }

// The operators that ran during a wait and took most of its time.
std::string waited_for(const Event& wait, const std::vector<Event>& all) {
  std::map<std::string_view, uint64_t> time;
  for (const Event& e : all) {
    if (e.begin >= wait.end) break;
    if (e.end <= wait.begin || !is_category(e, "operator")) continue;
    time[e.name] += std::min(e.end, wait.end) - std::max(e.begin, wait.begin);
  }
  std::vector<std::pair<uint64_t, std::string_view>> longest;
  for (const auto& [name, ns] : time) longest.emplace_back(ns, name);
  std::sort(longest.rbegin(), longest.rend());
  std::string text;
  for (size_t i = 0; i < longest.size() && i < 3; ++i) {
    text += fmt::format("{}{} {:.3f} ms", i ? ", " : "", longest[i].second, double(longest[i].first) / 1e6);
  }
  return text;
}

}  // namespace

void Profiler::write(const std::filesystem::path& file) const {
  std::ostringstream out;
  const std::vector<Event> all = events();
  const uint64_t origin = all.empty() ? 0 : all.front().begin;
  auto us = [&](uint64_t ns) { return double(ns - origin) / 1e3; };
  out << "{\"traceEvents\": [\n";
  out << R"j({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "kaon cpu(0)"}})j";
  std::set<uint32_t> tracks;
  for (const Event& e : all) {
    if (e.thread < first_gpu_track || !tracks.insert(e.thread).second) continue;
    constexpr const char* names[] = {"computes", "copies from the host", "copies to the host"};
    const uint32_t track = e.thread - first_gpu_track;
    out << fmt::format(
        ",\n{{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 0, \"tid\": {}, \"args\": {{\"name\": \"gpu({}) "
        "{}\"}}}}",
        e.thread, track / lanes, names[track % lanes]);
  }
  const auto pushed = [](const Event& e) {
    return fmt::format("\"block\": {}, \"pushed\": {}", json_string(e.block_path ? e.block_path : ""),
                       json_string(fmt::format("{}:{}", e.site.file_name(), e.site.line())));
  };
  for (const Event& e : all) {
    if (is_category(e, "collective")) {
      const std::string who = fmt::format("\"name\": {}, \"cat\": \"collective\", \"id\": {}, \"pid\": 0, \"tid\": {}",
                                          json_string(e.name), e.sequence, e.thread);
      out << fmt::format(",\n{{\"ph\": \"b\", {}, \"ts\": {:.3f}, \"args\": {{{}, \"bytes\": {}}}}}", who, us(e.begin),
                         pushed(e), e.bytes);
      out << fmt::format(",\n{{\"ph\": \"e\", {}, \"ts\": {:.3f}}}", who, us(e.end));
      continue;
    }
    out << fmt::format(
        ",\n{{\"ph\": \"X\", \"name\": {}, \"cat\": {}, \"pid\": 0, \"tid\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}",
        json_string(e.name), json_string(e.category), e.thread, us(e.begin), double(e.end - e.begin) / 1e3);
    if (e.site.line()) {
      out << fmt::format(", \"args\": {{{}}}", pushed(e));
    } else if (is_category(e, "wait") && e.end - e.begin >= 1'000'000) {
      out << fmt::format(", \"args\": {{\"waited for\": {}}}", json_string(waited_for(e, all)));
    }
    out << "}";
    if (!e.sequence) continue;
    // each end of an arrow must be inside the event that it leaves or reaches
    const bool begins = is_category(e, "push"), ends = is_category(e, "wait");
    out << fmt::format(
        ",\n{{\"ph\": \"{}\", \"name\": \"operation\", \"cat\": \"flow\", \"id\": {}, \"pid\": 0, \"tid\": {}, \"ts\": "
        "{:.3f}{}}}",
        begins ? "s"
        : ends ? "f"
               : "t",
        e.sequence, e.thread, us(ends ? e.end : e.begin), ends ? ", \"bp\": \"e\"" : "");
  }
  out << fmt::format("\n], \"displayTimeUnit\": \"ms\", \"otherData\": {{\"dropped\": {}}}}}\n", dropped());
  write_file(file, out.str());
}

}  // namespace kaon
