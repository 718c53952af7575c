#include "kaon/engine/scheduler/deadlock.h"

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kaon/engine/scheduler/engine_impl.h"

namespace kaon::engine {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// A thread that has lost its core between two steps looks idle. So the engine is checked many times with a sleep in
// between, in which such a thread gets its core back however busy the machine is.
constexpr auto look_every = 10ms;
constexpr int looks_enough = 25;

}  // namespace

const OpNode* DeadlockWatch::callers_op() const noexcept {
  const ThreadContext& context = thread_context();
  if (context.op_engine == &engine_.self) return context.op;
  for (Running* r = t_running; r; r = r->outer) {
    if (r->engine == &engine_) return r->op;
  }
  return nullptr;
}

bool DeadlockWatch::is_held_by_caller(const Var& var, AccessMode mode) const {
  const OpNode* op = callers_op();
  const std::optional<AccessMode> access = op ? op->access_to(var) : std::nullopt;
  if (!access) return false;
  // the operation's own read grant: the values are ready and have not failed
  if (access == AccessMode::read && mode == AccessMode::read) return true;
  throw WouldDeadlock("[wait] the operation waits for an array that it holds itself;" + describe(op->label));
}

// An outer op on this stack is itself waiting and ran this op while helping; it cannot finish first.
void DeadlockWatch::refuse_if_held_below(const Var& var) const {
  const OpNode* caller = callers_op();
  for (Running* r = t_running; r; r = r->outer) {
    if (r->engine != &engine_ || r->op == caller || !r->op->access_to(var)) continue;
    throw WouldDeadlock("[wait] the operation waits for an array that another one holds, which goes on only after it:" +
                        describe(r->op->label) + ";" + describe(caller->label));
  }
}

void DeadlockWatch::refuse_inside(const char* what) const {
  const OpNode* op = callers_op();
  if (!op) return;
  throw WouldDeadlock("[" + std::string(what) + "] called inside an operation, which would wait for itself;" +
                      describe(op->label));
}

void DeadlockWatch::begin_wait(WaitNode& waiter, const OpNode& op, bool has_thread) noexcept {
  std::lock_guard lock(mutex_);
  if (!has_thread && !is_watched_) {
    try {
      watch();
      is_watched_ = true;
    } catch (const std::bad_alloc&) {  // no memory for a timer: the next such wait tries again
    }
  }
  waiter.waiting_op = &op;
  waiter.newer_wait = nullptr;
  waiter.older_wait = std::exchange(newest_, &waiter);
  if (waiter.older_wait) waiter.older_wait->newer_wait = &waiter;
  ++changes_;
  count_.fetch_add(1, std::memory_order_seq_cst);
}

void DeadlockWatch::unregister(WaitNode& waiter) noexcept {
  std::lock_guard lock(mutex_);
  if (waiter.waiting_op) unlink(waiter);
}

void DeadlockWatch::unlink(WaitNode& waiter) noexcept {
  (waiter.newer_wait ? waiter.newer_wait->older_wait : newest_) = waiter.older_wait;
  if (waiter.older_wait) waiter.older_wait->newer_wait = waiter.newer_wait;
  waiter.waiting_op = nullptr;
  ++changes_;
  count_.fetch_sub(1, std::memory_order_seq_cst);
}

// True when nothing runs, nothing is ready, and each operation that has begun waits for an array: such an array can
// only be written after one of these operations has ended, and each of them ends only after its wait.
bool DeadlockWatch::is_stuck() {
  const auto now = Clock::now();
  if (now - last_look_ < look_every) return false;
  last_look_ = now;
  const uint64_t progress = engine_.counts.pushed() + engine_.counts.done() + changes_;
  const int begun = engine_.workers.slots.running() + engine_.workers.nested() + engine_.runner.ending_later();
  if (progress != progress_ || !engine_.ready.is_empty() || engine_.waits.is_reading_now() ||
      int(count_.load(std::memory_order_seq_cst)) < begun || int(count_waiting_ops()) < begun) {
    progress_ = progress;
    quiet_looks_ = 0;
    return false;
  }
  if (++quiet_looks_ < looks_enough) return false;
  quiet_looks_ = 0;
  return true;
}

size_t DeadlockWatch::count_waiting_ops() const {
  std::vector<const OpNode*> ops;
  ops.reserve(count_.load(std::memory_order_seq_cst));
  for (const WaitNode* w = newest_; w; w = w->older_wait) ops.push_back(w->waiting_op);
  std::sort(ops.begin(), ops.end(), std::less<>());
  return size_t(std::unique(ops.begin(), ops.end()) - ops.begin());
}

// Ends the latest wait: on its thread's stack it is on top.
void DeadlockWatch::fail_if_stuck() noexcept {
  WaitNode* latest = nullptr;
  Dep* granted = nullptr;
  try {
    std::lock_guard lock(mutex_);
    if (!newest_ || !is_stuck()) return;
    latest = newest_;
    const OpNode& op = *latest->waiting_op;
    const std::string text =
        "[wait] the operation waits for an array that can only be written after it has ended;" + describe(op.label);
    IntrusivePtr<const OpError> error = engine_.failures.record(op, std::make_exception_ptr(WouldDeadlock(text)), true);
    // under the lock: ending a wait removes it from this list first, so this one still exists
    bool mark = false;
    if (!latest->dep.var()->remove(latest->dep, granted, mark)) return;
    unlink(*latest);
    latest->error = std::move(error);
  } catch (const std::bad_alloc&) {
    return;  // a later check finds it stuck again
  }
  engine_.runner.grant_all(granted);
  latest->type->signal(*latest);
}

void DeadlockWatch::watch() {
  engine_.io.call_after(look_every, [this] { watch_again(); });
}

void DeadlockWatch::watch_again() noexcept {
  for (;; std::this_thread::sleep_for(look_every)) {
    fail_if_stuck();
    std::lock_guard lock(mutex_);
    is_watched_ = newest_ != nullptr;
    if (!is_watched_) return;
    try {
      return watch();
    } catch (const std::bad_alloc&) {  // no memory for a timer: this thread keeps checking
    }
  }
}

}  // namespace kaon::engine
