// What a communicator tells of its calls: in errors, and to the watch, which compares them with other ranks'.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kaon/comm/driver/driver.h"

namespace kaon::comm {

namespace {

constexpr std::array<const char*, 5> reduce_names{"sum", "mean", "min", "max", "prod"};

bool reduces(const Call& call) { return call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter; }

}  // namespace

std::string describe(const Call& call) {
  std::string text = name_of(call.kind);
  if (call.kind == Kind::barrier || call.kind == Kind::split) return text;
  if (reduces(call)) text += fmt::format(" ({})", reduce_names[size_t(call.op)]);
  text += fmt::format(" of {} elements of {}{}", call.count, name_of(call.dtype), call.on_gpus ? " on GPUs" : "");
  if (call.priority) text += fmt::format(" with priority {}", *call.priority);
  if (call.kind == Kind::broadcast) text += fmt::format(" from rank {}", call.peer);
  if (call.kind == Kind::exchange) text += fmt::format(" with rank {}", call.peer);
  if (call.kind == Kind::send) text += fmt::format(" to rank {}", call.peer);
  if (call.kind == Kind::recv) text += fmt::format(" from rank {}", call.peer);
  return text;
}

uint64_t hash_of(uint64_t before, const Call& call) {
  uint64_t h = before;
  // The multiplication moves bits up only; the shift brings them down.
  const auto add = [&](uint64_t part) {
    h = (h ^ part) * 0x9e3779b97f4a7c15;
    h ^= h >> 32;
  };
  add(uint64_t(call.kind));
  add(reduces(call) ? uint64_t(call.op) : 0);
  add(uint64_t(call.dtype));
  add(uint64_t(call.count));
  add(call.on_gpus);
  add(call.kind == Kind::broadcast ? uint64_t(call.peer) : 0);
  add(call.priority ? uint64_t(*call.priority) : uint64_t(1) << 63);
  if (call.counts) {
    for (const int64_t n : *call.counts) add(uint64_t(n));
  }
  return h;
}

void Driver::note_begin(const Call& call) {
  if (call.kind == Kind::send || call.kind == Kind::recv || call.kind == Kind::exchange) return;
  hash_ = hash_of(hash_, call);
  history_[begun_++ % kept_hashes] = hash_;
}

Progress Driver::progress() const {
  std::lock_guard lock(mutex_);
  return {id_, begun_, hash_, begun_ > 0 ? describe(running_call_) : std::string()};
}

std::string Driver::differs(int rank, const Progress& other) const {
  std::lock_guard lock(mutex_);
  if (other.communicator != id_ || other.place == 0 || other.place > begun_ || other.place + kept_hashes <= begun_)
    return {};
  if (history_[(other.place - 1) % kept_hashes] == other.history) return {};
  return fmt::format(
      "the ranks call different collectives: call {} is {} on rank {}; rank {} has called something else there or "
      "before, and is in call {}, {}",
      other.place - 1, other.call, rank, rank_, begun_ - 1, describe(running_call_));
}

bool Driver::waits_for(const std::set<int>& gone) const {
  if (gone.empty()) return false;
  std::lock_guard lock(mutex_);
  const auto is_long = [now = std::chrono::steady_clock::now()](auto since) {
    return now - since > std::chrono::milliseconds(500);
  };
  // Its recv may come late, but not from a rank that has ended; of parts of all ranks the numbers are not known here.
  const auto is_lost = [&](const Send& s) {
    return is_long(s.since) && (id_ == all_ranks ? gone.contains(s.peer) : int(gone.size()) + 1 >= world_->size());
  };
  return (running_ && is_long(running_since_)) || (!beside_.empty() && is_long(beside_.front().since)) ||
         (!launched_.empty() && is_long(launched_.begin()->second.since)) || std::ranges::any_of(sends_, is_lost);
}

std::vector<LongCall> Driver::long_calls(std::chrono::steady_clock::duration least) const {
  std::lock_guard lock(mutex_);
  std::vector<LongCall> all;
  const auto now = std::chrono::steady_clock::now();
  const auto add = [&](const Call& call, auto since, uint64_t begun) {
    if (call.kind == Kind::exchange || now - since < least) return;  // not all ranks'
    all.push_back({id_, begun, size_t(size_), describe(call)});
  };
  for (const auto& [place, launched] : launched_) add(launched.call, launched.since, launched.begun);
  if (running_ && running_call_.on_gpus) add(running_call_, running_since_, begun_);
  return all;
}

std::optional<Waiting> Driver::waiting(std::chrono::steady_clock::duration least) const {
  std::lock_guard lock(mutex_);
  if (!running_ || running_call_.on_gpus || !sends_.empty()) return std::nullopt;
  if (std::chrono::steady_clock::now() - running_since_ < least) return std::nullopt;
  const bool has_peer = running_call_.kind == Kind::recv || running_call_.kind == Kind::exchange;
  return Waiting{id_, running_place_, begun_, rank_, has_peer ? running_call_.peer : -1, describe(running_call_)};
}

bool Driver::has_begun(uint64_t communicator, uint64_t place) const {
  std::lock_guard lock(mutex_);
  return communicator == id_ && begun_ >= place;
}

}  // namespace kaon::comm
