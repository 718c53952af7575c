// Waits inside operations: finds those that can never end, and ends them with WouldDeadlock.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "kaon/engine/scheduler/engine_impl.h"

namespace kaon {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// A thread that has lost its core between two steps looks idle. So the engine is checked many times with a sleep in
// between, in which such a thread gets its core back however busy the machine is.
constexpr auto look_every = 10ms;
constexpr int looks_enough = 25;

}  // namespace

const OpNode* Engine::Impl::callers_op() const noexcept {
  const ThreadContext& context = thread_context();
  if (context.op_engine == &self) return context.op;
  for (Running* r = t_running; r; r = r->outer) {
    if (r->engine == this) return r->op;
  }
  return nullptr;
}

bool Engine::Impl::is_held_by_caller(const Var& var, AccessMode mode) const {
  const OpNode* op = callers_op();
  const std::optional<AccessMode> access = op ? op->access_to(var) : std::nullopt;
  if (!access) return false;
  // the operation's own read grant: the values are ready and have not failed
  if (access == AccessMode::read && mode == AccessMode::read) return true;
  throw WouldDeadlock("[wait] the operation waits for an array that it holds itself;" + describe(op->label));
}

// An outer op on this stack is itself waiting and ran this op while helping; it cannot finish first.
void Engine::Impl::refuse_if_held_below(const Var& var) const {
  const OpNode* caller = callers_op();
  for (Running* r = t_running; r; r = r->outer) {
    if (r->engine != this || r->op == caller || !r->op->access_to(var)) continue;
    throw WouldDeadlock("[wait] the operation waits for an array that another one holds, which goes on only after it:" +
                        describe(r->op->label) + ";" + describe(caller->label));
  }
}

void Engine::Impl::refuse_inside(const char* what) const {
  const OpNode* op = callers_op();
  if (!op) return;
  throw WouldDeadlock("[" + std::string(what) + "] called inside an operation, which would wait for itself;" +
                      describe(op->label));
}

void Engine::Impl::begin_op_wait(WaitNode& waiter, const OpNode& op, bool has_thread) noexcept {
  std::lock_guard lock(op_waits.mutex);
  if (!has_thread && !op_waits.is_watched) {
    try {
      watch_op_waits();
      op_waits.is_watched = true;
    } catch (const std::bad_alloc&) {  // no memory for a timer: the next such wait tries again
    }
  }
  waiter.waiting_op = &op;
  waiter.newer_wait = nullptr;
  waiter.older_wait = std::exchange(op_waits.newest, &waiter);
  if (waiter.older_wait) waiter.older_wait->newer_wait = &waiter;
  ++op_waits.changes;
  op_waits.count.fetch_add(1, std::memory_order_seq_cst);
}

void Engine::Impl::end_op_wait(WaitNode& waiter) noexcept {
  std::lock_guard lock(op_waits.mutex);
  if (waiter.waiting_op) unlink(waiter);
}

void Engine::Impl::unlink(WaitNode& waiter) noexcept {
  (waiter.newer_wait ? waiter.newer_wait->older_wait : op_waits.newest) = waiter.older_wait;
  if (waiter.older_wait) waiter.older_wait->newer_wait = waiter.newer_wait;
  waiter.waiting_op = nullptr;
  ++op_waits.changes;
  op_waits.count.fetch_sub(1, std::memory_order_seq_cst);
}

// True when nothing runs, nothing is ready, and each operation that has begun waits for an array: such an array can
// only be written after one of these operations has ended, and each of them ends only after its wait.
bool Engine::Impl::is_stuck() {
  const auto now = Clock::now();
  if (now - op_waits.last_look < look_every) return false;
  op_waits.last_look = now;
  const uint64_t progress =
      pushed.load(std::memory_order_seq_cst) + done.load(std::memory_order_seq_cst) + op_waits.changes;
  const int begun = active.load(std::memory_order_seq_cst) - spinning.load(std::memory_order_seq_cst) +
                    nested.load(std::memory_order_seq_cst) + ending_later.load(std::memory_order_seq_cst);
  if (progress != op_waits.progress || has_work() || reading_now.load(std::memory_order_seq_cst) > 0 ||
      int(op_waits.count.load(std::memory_order_seq_cst)) < begun || int(count_waiting_ops()) < begun) {
    op_waits.progress = progress;
    op_waits.quiet_looks = 0;
    return false;
  }
  if (++op_waits.quiet_looks < looks_enough) return false;
  op_waits.quiet_looks = 0;
  return true;
}

size_t Engine::Impl::count_waiting_ops() const {
  std::vector<const OpNode*> ops;
  ops.reserve(op_waits.count.load(std::memory_order_seq_cst));
  for (const WaitNode* w = op_waits.newest; w; w = w->older_wait) ops.push_back(w->waiting_op);
  std::sort(ops.begin(), ops.end(), std::less<>());
  return size_t(std::unique(ops.begin(), ops.end()) - ops.begin());
}

// Ends the latest wait: on its thread's stack it is on top.
void Engine::Impl::fail_if_stuck() noexcept {
  WaitNode* latest = nullptr;
  Dep* granted = nullptr;
  try {
    std::lock_guard lock(op_waits.mutex);
    if (!op_waits.newest || !is_stuck()) return;
    latest = op_waits.newest;
    const OpNode& op = *latest->waiting_op;
    const std::string text =
        "[wait] the operation waits for an array that can only be written after it has ended;" + describe(op.label);
    IntrusivePtr<const OpError> error = failures.record(op, std::make_exception_ptr(WouldDeadlock(text)), true);
    // under the lock: ending a wait removes it from op_waits first, so this one still exists
    bool mark = false;
    if (!latest->dep.var()->remove(latest->dep, granted, mark)) return;
    unlink(*latest);
    latest->error = std::move(error);
  } catch (const std::bad_alloc&) {
    return;  // a later check finds it stuck again
  }
  grant_all(granted);
  latest->type->signal(*latest);
}

void Engine::Impl::watch_op_waits() {
  auto timer = std::make_shared<PoolTimer>(io.get_executor(), look_every);
  timer->async_wait([this, timer](const boost::system::error_code&) { watch_again(); });
}

void Engine::Impl::watch_again() noexcept {
  for (;; std::this_thread::sleep_for(look_every)) {
    fail_if_stuck();
    std::lock_guard lock(op_waits.mutex);
    op_waits.is_watched = op_waits.newest != nullptr;
    if (!op_waits.is_watched) return;
    try {
      return watch_op_waits();
    } catch (const std::bad_alloc&) {  // no memory for a timer: this thread keeps checking
    }
  }
}

}  // namespace kaon
