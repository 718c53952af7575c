#include "kaon/engine/scheduler/var_waits.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "kaon/engine/operation/shared_read_lease.h"
#include "kaon/engine/profiler.h"
#include "kaon/engine/scheduler/engine_impl.h"
#include "kaon/engine/scheduler/op_run_context.h"

namespace kaon::engine {
namespace {

using Clock = std::chrono::steady_clock;

// A waiting thread: checks `is_signalled` while it helps, then sleeps.
struct ThreadWaiter : WaitNode {
  ThreadWaiter(Var& var, AccessMode mode);
  std::atomic<int> state{0};  // 0 waiting, 1 asleep, 2 signalled, 3 the signalling thread no longer uses this
  std::mutex mutex;
  std::condition_variable wake;

  bool is_signalled() const noexcept { return state.load(std::memory_order_acquire) >= 2; }
  // Sleeps until signalled; `briefly`: for a millisecond at most.
  void sleep(bool briefly) {
    int expected = 0;
    if (!state.compare_exchange_strong(expected, 1, std::memory_order_acq_rel)) return;
    std::unique_lock lock(mutex);
    auto is_over = [&] { return state.load(std::memory_order_acquire) == 3; };
    if (briefly) {
      if (wake.wait_for(lock, std::chrono::milliseconds(1), is_over)) return;
      expected = 1;
      if (state.compare_exchange_strong(expected, 0, std::memory_order_acq_rel)) return;
    }
    wake.wait(lock, is_over);
  }
};

constexpr OpType thread_waiter_type{
    .signal =
        [](OpBase& base) noexcept {
          auto& w = static_cast<ThreadWaiter&>(base);
          if (w.state.exchange(2, std::memory_order_acq_rel) != 1) return;  // not asleep: it sees the 2
          std::lock_guard lock(w.mutex);
          w.state.store(3, std::memory_order_release);
          w.wake.notify_one();
        },
};
ThreadWaiter::ThreadWaiter(Var& var, AccessMode mode) : WaitNode(thread_waiter_type, var, mode) {}

}  // namespace

bool VarWaits::queue(WaitNode& waiter, const OpNode* op, bool has_thread) {
  if (engine_.is_gone()) [[unlikely]] {
    engine_.check_finished(*waiter.dep.var());
    waiter.error = IntrusivePtr<const OpError>(waiter.dep.var()->error());
    return false;
  }
  struct Registration {  // made before it is queued, since it may be signalled at once
    DeadlockWatch* deadlocks = nullptr;
    WaitNode& waiter;
    ~Registration() {
      if (deadlocks) deadlocks->end_wait(waiter);
    }
  } registration{nullptr, waiter};
  if (op) {
    engine_.deadlocks.begin_wait(waiter, *op, has_thread);
    registration.deadlocks = &engine_.deadlocks;
  }
  Var& var = *waiter.dep.var();
  std::unique_lock lock(var);
  bool now = waiter.dep.mode() == AccessMode::read ? var.is_readable() : var.is_idle();
  if (now) {
    waiter.error = IntrusivePtr<const OpError>(var.error());
    return false;
  }
  if (waiter.abandoned) return false;
  if (op) engine_.deadlocks.refuse_if_held_below(var);
  waiter.pending.store(1, std::memory_order_relaxed);
  SharedReadLease* ended = nullptr;
  if (waiter.dep.is_write() && var.has_read_leases()) SharedReadLease::end_all_at(var, ended);
  var.append(waiter.dep);  // not granted: an access is in front
  registration.deadlocks = nullptr;
  lock.unlock();
  // the waiter may be destroyed by then
  SharedReadLease::give_back_all(ended, [this](Dep* list) { engine_.runner.grant_all(list); });
  return true;
}

bool VarWaits::enqueue(WaitNode& waiter, const Executor* resumes_on) {
  const DeadlockWatch& deadlocks = engine_.deadlocks;
  if (resumes_on && deadlocks.is_held_by_caller(*waiter.dep.var(), waiter.dep.mode())) return false;
  const bool queued = queue(waiter, resumes_on ? deadlocks.callers_op() : nullptr, resumes_on != &engine_.io);
  if (queued) engine_.workers.serve();  // the waiter may be destroyed by then
  return queued;
}

bool VarWaits::abandon(WaitNode& waiter) {
  Dep* granted = nullptr;
  const bool removed = waiter.dep.var()->remove(waiter.dep, granted, waiter.abandoned);
  if (removed) engine_.deadlocks.end_wait(waiter);
  engine_.runner.grant_all(granted);
  return removed;
}

bool VarWaits::read_now(Var& var, FunctionRef<void()> body) {
  if (engine_.is_gone()) [[unlikely]] {
    engine_.check_finished(var);
    if (var.error()) throw_op_error(*IntrusivePtr<const OpError>(var.error()));
    body();
    return true;
  }
  Dep grant;
  grant.set(var, AccessMode::read);
  var.lock();
  if (!var.is_readable()) {
    var.unlock();
    return false;
  }
  if (var.error()) {
    IntrusivePtr<const OpError> error(var.error());
    var.unlock();
    throw_op_error(*error);
  }
  var.append(grant);  // granted at once: nothing is in front
  var.unlock();
  struct End {  // also when the body throws
    ~End() {
      waits.engine_.runner.grant_all(grant.var()->complete(grant));
      waits.reading_now_.fetch_sub(1, std::memory_order_seq_cst);
    }
    VarWaits& waits;
    Dep& grant;
  } end{*this, grant};
  reading_now_.fetch_add(1, std::memory_order_seq_cst);
  body();
  return true;
}

bool VarWaits::run_now(std::span<Var* const> reads, FunctionRef<void(RunContext&)> body) noexcept {
  constexpr size_t few = 8;
  Engine::Impl& e = engine_;
  const bool is_alone = !t_running && !thread_context().op;
  const bool may_skip_queue = !e.workers.is_serial() && !e.ready.chosen() && !e.profiler.is_on() && !e.is_gone();
  if (!is_alone || !may_skip_queue || reads.size() > few) return false;
  size_t begun = 0;
  while (begun < reads.size() && reads[begun]->try_begin_read()) ++begun;
  if (begun == reads.size()) {
    OpRunContext context(e.self);
    body(context);
  }
  for (size_t i = 0; i < begun; ++i) {
    Dep grant;
    grant.set(*reads[i], AccessMode::read);
    if (Dep* granted = reads[i]->complete(grant)) e.runner.grant_all(granted);
  }
  return begun == reads.size();
}

void VarWaits::wait(Var& var, AccessMode mode) {
  Engine::Impl& e = engine_;
  if (e.deadlocks.is_held_by_caller(var, mode)) return;
  ThreadWaiter waiter(var, mode);
  const OpNode* op = e.deadlocks.callers_op();
  if (queue(waiter, op, true)) {
    const uint64_t begin = e.profiler.is_on() ? Profiler::now() : 0;
    // the operation that it waits for may become ready with no other thread to run it, or never
    const bool looks_again = op || e.workers.caller_has_slot() || !e.workers.has_pool();
    auto signalled = [&] { return waiter.is_signalled(); };
    SpinningWaiter spinning(e);
    Clock::time_point begun;  // of the looks since it has helped last
    for (int looks = 0; !waiter.is_signalled(); ++looks) {
      const auto has_looked_long = [&] {
        const auto now = Clock::now();
        if (looks == 0) begun = now;
        return now >= begun + e.workers.patience();
      };
      if (e.workers.help(signalled, &spinning)) {
        looks = -1;
      } else if (looks % 32 == 0 && has_looked_long()) {
        spinning.end();
        waiter.sleep(looks_again);
        spinning.begin();
        if (op) e.deadlocks.fail_if_stuck();
      } else {
        e.workers.back_off(looks);
      }
    }
    if (begin)
      e.profiler.record(
          {.name = "wait", .category = "wait", .begin = begin, .end = Profiler::now(), .sequence = waiter.ended_by});
  }
  if (waiter.error) throw_op_error(*waiter.error);
}

}  // namespace kaon::engine
