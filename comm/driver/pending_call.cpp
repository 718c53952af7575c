// How a communicator looks after a call on the host that is under way.
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "kaon/comm/driver/driver.h"

namespace kaon::comm {

// Whether the pending call has ended or failed. Looks for this time; `again`: since something has been done last.
bool Driver::look(Running& running, std::chrono::microseconds patience, bool again) {
  bool has_ended = false;
  attempt(running, [&] {
    auto last = std::chrono::steady_clock::now() + patience;
    for (uint64_t before = running.pending->progress();;) {
      has_ended = running.pending->has_ended();
      const auto now = std::chrono::steady_clock::now();
      if (const uint64_t progress = running.pending->progress(); progress != before) {
        before = progress;
        if (again) last = now + patience;
      }
      if (has_ended || now >= last) break;
    }
  });
  return has_ended || running.failure;
}

// Begins the call, which is the next one, on this thread, one of the engine's or the program's, and looks at it for as
// long as waking the communicator's thread and sending the array take. That thread goes on where another rank comes
// later. It alone calls a library that may not return, or that raises SIGPIPE, which it blocks and the program does
// not.
void Driver::begin_here(const Entry& entry, std::unique_lock<std::mutex>& lock) {
  Running running = begin_call(entry);
  is_pending_ = true;
  lock.unlock();
  bool has_ended = false;
  attempt(running, [&] {
    constexpr int looks = 32;  // without the clock, which takes longer than a look where memory is shared
    running.pending = group_->begin(running.call);
    for (int i = 0; i < looks && !has_ended; ++i) has_ended = running.pending->has_ended();
  });
  const int64_t kilobytes = running.call.count * int64_t(size_of(running.call.dtype)) / 1024;
  if (running.pending && !has_ended && !running.failure)
    has_ended = look(running, std::chrono::microseconds(20 + kilobytes), false);
  lock.lock();
  if (running_ != running.op) return abandon(running);  // fail() has ended it
  if (has_ended || running.failure || !failure_.empty()) {
    if (!has_ended && !running.failure) give_up(running);
    leave(running);
    if (is_due() || ends_ || !failure_.empty()) wake_.notify_one();
    lock.unlock();
    return complete(running);
  }
  is_pending_ = bool(running.pending);
  handed_ = std::move(running);
  wake_.notify_one();
}

// The communicator has failed before the call has ended.
void Driver::give_up(Running& running) {
  running.failure = std::make_exception_ptr(CommError(fmt::format("[{}] {}", name_of(running.call.kind), failure_)));
  abandon(running);
}

// MPI may use the memory of a call that nobody looks at any more: it is kept for ever.
void Driver::abandon(Running& running) {
  if (!running.pending) return;
  (void)running.pending.release();
  for (const auto& array : {running.in, running.out}) {
    if (array) array->retain();
  }
}

// Until the pending call has ended, or the communicator has failed. False: fail() has ended it. Rests between looks,
// since the core may be that of a thread that computes: one that has rested gets the core again as soon as it wakes,
// one that always looks, or yields, has to wait for its turn.
bool Driver::wait(Running& running, std::unique_lock<std::mutex>& lock) {
  constexpr std::chrono::microseconds none(0), short_time(5), long_time(100), rest(50);
  // Within a machine the next piece comes soon after one that has come.
  const auto after_a_step = local_size_ == size_ ? long_time : short_time;
  for (auto patience = after_a_step;;) {
    const bool is_last = !failure_.empty();  // what has come in time counts
    lock.unlock();
    const uint64_t before = running.pending->progress();
    const bool has_ended = look(running, is_last ? none : patience, !is_last);
    patience = running.pending->progress() == before ? short_time : after_a_step;
    if (!has_ended && !is_last) std::this_thread::sleep_for(rest);
    lock.lock();
    if (running_ != running.op) return false;
    if (has_ended) return true;
    if (is_last) return give_up(running), true;
    if (!sends_.empty()) poll_sends(lock);
  }
}

}  // namespace kaon::comm
