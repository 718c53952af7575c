// Threads that wait: for a var, for everything, for room.
#include <algorithm>
#include <functional>

#include "kaon/engine/await.h"
#include "kaon/engine/engine_impl.h"

namespace kaon {
namespace {

using Clock = std::chrono::steady_clock;

// A waiting thread: looks at `is_signalled` while it helps, then sleeps.
struct ThreadWaiter : WaitNode {
  ThreadWaiter(Var& var, AccessMode mode);
  std::atomic<int> state{0};  // 0 waiting, 1 asleep, 2 signalled, 3 the signalling thread is done with us
  std::mutex mutex;
  std::condition_variable wake;

  bool is_signalled() const noexcept { return state.load(std::memory_order_acquire) >= 2; }
  // Until signalled; `briefly`: for a millisecond at most.
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
    .signal = [](OpBase& base) noexcept {
      auto& w = static_cast<ThreadWaiter&>(base);
      if (w.state.exchange(2, std::memory_order_acq_rel) != 1) return;  // not asleep: it sees the 2
      std::lock_guard lock(w.mutex);
      w.state.store(3, std::memory_order_release);
      w.wake.notify_one();
    },
};
ThreadWaiter::ThreadWaiter(Var& var, AccessMode mode) : WaitNode(thread_waiter_type, var, mode) {}

}  // namespace

void throw_op_error(const OpError& error) {
  if (error.roots.empty()) {
    error.reported.store(true, std::memory_order_relaxed);
    std::rethrow_exception(error.exception);
  }
  for (const auto& r : error.roots) r->reported.store(true, std::memory_order_relaxed);
  throw AggregateError(error.roots);
}

bool Engine::enqueue_waiter(WaitNode& waiter) {
  Var& var = *waiter.dep.var();
  var.lock();
  bool now = waiter.dep.mode() == AccessMode::read ? var.is_readable() : var.is_idle();
  if (now) {
    waiter.error = IntrusivePtr<const OpError>(var.error());
    var.unlock();
    return false;
  }
  if (impl_->is_orphan()) [[unlikely]] {
    var.unlock();
    Impl::throw_orphan();
  }
  waiter.pending.store(1, std::memory_order_relaxed);
  var.append(waiter.dep);  // not granted: something is in front
  var.unlock();
  return true;
}

bool Engine::read_now(Var& var, FunctionRef<void()> body) {
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
  var.append(grant);  // at once: nothing is in front
  var.unlock();
  struct End {  // also when the body throws
    ~End() {
      OpNode* next = nullptr;
      for (Dep* g = grant.var()->complete(grant); g;) {
        Dep* following = g->next;
        engine.granted(*g->op, next);
        g = following;
      }
      if (!next) return;
      if (engine.threads == 0) {
        engine.run_chain(next);
      } else {
        engine.make_ready(*next);
      }
    }
    Impl& engine;
    Dep& grant;
  } end{*impl_, grant};
  body();
  return true;
}

void Engine::wait(Var& var, AccessMode mode) {
  ThreadWaiter waiter(var, mode);
  for (Running* r = t_running; r; r = r->outer) {
    if (r->engine != impl_.get()) continue;
    for (int i = 0; i < r->op->num_deps; ++i) {
      const Dep& d = r->op->deps[i];
      if (d.var() != &var) continue;
      if (!d.is_write() && mode == AccessMode::read) {
        return;  // what this operation may read is ready and sound; a write behind it is not waited for
      }
      throw WouldDeadlock("[wait] the operation waits for an array that it holds itself;" + describe(r->op->label));
    }
  }
  if (enqueue_waiter(waiter)) {
    bool holds_slot = t_slot_of == impl_.get();
    auto signalled = [&] { return waiter.is_signalled(); };
    auto until = Clock::now() + impl_->options.spin;
    for (int looks = 0; !waiter.is_signalled(); ++looks) {
      if (impl_->help(signalled)) {
        until = Clock::now() + impl_->options.spin;
      } else if (looks % 32 == 0 && Clock::now() >= until) {
        // who keeps a slot looks for work again: what it waits for may become ready with nobody else to run it
        waiter.sleep(holds_slot);
      } else {
        cpu_pause();
      }
    }
  }
  if (waiter.error) throw_op_error(*waiter.error);
}

void Engine::Impl::wait_for_level(uint64_t level) {
  auto reached = [&] { return in_flight() <= level; };
  auto until = Clock::now() + options.spin;
  for (int looks = 0; !reached(); ++looks) {
    if (help(reached)) {
      until = Clock::now() + options.spin;
    } else if (looks % 32 == 0 && Clock::now() >= until) {
      std::unique_lock lock(park_mutex);
      count_parked(level, 1);  // before looking again: finish() sees us, or we see its count
      // in slices: a slot may become free for us to help
      park.wait_for(lock, std::chrono::milliseconds(10), reached);
      count_parked(level, -1);
    } else {
      cpu_pause();
    }
  }
}

void Engine::wait_all() {
  if (on_worker()) {
    throw WouldDeadlock("[wait_all] called inside an operation, which would wait for itself;" +
                        describe(t_running->op->label));
  }
  if (impl_->is_orphan() && impl_->in_flight() > 0) Impl::throw_orphan();
  impl_->wait_for_level(0);
  if (std::exception_ptr e = take_unreported()) std::rethrow_exception(e);
}

std::exception_ptr Engine::take_unreported() {
  std::vector<IntrusivePtr<const OpError>> errors;
  {
    std::lock_guard lock(impl_->error_mutex);
    errors.swap(impl_->unreported);
  }
  std::erase_if(errors, [](const auto& e) { return e->reported.exchange(true); });
  if (errors.empty()) return nullptr;
  std::sort(errors.begin(), errors.end(), [](const auto& a, const auto& b) { return a->sequence < b->sequence; });
  return std::make_exception_ptr(AggregateError(std::move(errors)));
}

void Engine::Impl::throttle() {
  // Operations and Tasks never block in a push: they might wait for themselves.
  if (t_running || thread_context().in_task) return;
  wait_for_level(resume_level());
}

void Engine::Impl::count_parked(uint64_t level, int change) noexcept {
  if (level > 0) parked_for_room.fetch_add(change, std::memory_order_seq_cst);
  parked.fetch_add(change, std::memory_order_seq_cst);
}

void Engine::Impl::check_parked() {
  uint64_t n = in_flight();
  if (n > (parked_for_room.load(std::memory_order_seq_cst) > 0 ? resume_level() : 0)) return;
  std::vector<LevelWaiter> resumed;
  {
    std::lock_guard lock(park_mutex);
    n = in_flight();
    auto reached = [&](const LevelWaiter& w) { return n <= w.level; };
    auto first = std::stable_partition(level_waiters.begin(), level_waiters.end(), std::not_fn(reached));
    resumed.assign(first, level_waiters.end());
    level_waiters.erase(first, level_waiters.end());
    for (const LevelWaiter& w : resumed) count_parked(w.level, -1);
  }
  park.notify_all();
  for (LevelWaiter& w : resumed) w.executor->post(w.work);
}

void Engine::on_level(uint64_t level, std::coroutine_handle<> work, Executor& executor) {
  if (impl_->is_orphan()) Impl::throw_orphan();
  {
    std::lock_guard lock(impl_->park_mutex);
    impl_->level_waiters.push_back({work, &executor, level});
    impl_->count_parked(level, 1);  // before looking again, as above
  }
  impl_->check_parked();
}

void Engine::on_idle(std::coroutine_handle<> work, Executor& executor) { on_level(0, work, executor); }
void Engine::on_room(std::coroutine_handle<> work, Executor& executor) {
  on_level(impl_->resume_level(), work, executor);
}
bool Engine::is_over_budget() const { return impl_->in_flight() > uint64_t(impl_->options.max_in_flight); }

IdleAwaiter Engine::idle() { return IdleAwaiter(*this); }

}  // namespace kaon
