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

void throw_op_error(const OpError& error) {
  if (error.roots.empty()) {
    error.reported.store(true, std::memory_order_relaxed);
    std::rethrow_exception(error.exception);
  }
  for (const auto& r : error.roots) r->reported.store(true, std::memory_order_relaxed);
  throw AggregateError(error.roots);
}

bool Engine::Impl::queue_waiter(WaitNode& waiter) {
  Var& var = *waiter.dep.var();
  var.lock();
  bool now = waiter.dep.mode() == AccessMode::read ? var.is_readable() : var.is_idle();
  if (now) {
    waiter.error = IntrusivePtr<const OpError>(var.error());
    var.unlock();
    return false;
  }
  if (waiter.abandoned) {
    var.unlock();
    return false;
  }
  if (is_orphan()) [[unlikely]] {
    var.unlock();
    throw_orphan();
  }
  waiter.pending.store(1, std::memory_order_relaxed);
  var.append(waiter.dep);  // not granted: something is in front
  var.unlock();
  return true;
}

bool Engine::enqueue_waiter(WaitNode& waiter) {
  if (impl_->is_held_by_caller(*waiter.dep.var(), waiter.dep.mode())) return false;
  bool queued = impl_->queue_waiter(waiter);
  if (queued) impl_->serve();  // the waiter may be gone then
  return queued;
}

bool Engine::abandon_waiter(WaitNode& waiter) {
  Var& var = *waiter.dep.var();
  Dep* granted = nullptr;
  bool removed = var.remove(waiter.dep, granted, waiter.abandoned);
  impl_->grant_all(granted);
  return removed;
}

void Engine::Impl::grant_all(Dep* list) {
  OpNode* next = nullptr;
  for (Dep* g = list; g;) {
    Dep* following = g->next;
    granted(*g->op, next, 0);
    g = following;
  }
  if (!next) return;
  proceed(*next);
  serve();
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
    ~End() { engine.grant_all(grant.var()->complete(grant)); }
    Impl& engine;
    Dep& grant;
  } end{*impl_, grant};
  body();
  return true;
}

namespace {

// An operation that waits for what it holds itself waits for ever. True: it reads and may read, so there is no need.
bool holds_for_reading(const OpNode& op, const Var& var, AccessMode mode) {
  for (int i = 0; i < op.num_deps; ++i) {
    const Dep& d = op.deps[i];
    if (d.var() != &var) continue;
    if (!d.is_write() && mode == AccessMode::read) {
      return true;  // what this operation may read is ready and sound; a write behind it is not waited for
    }
    throw WouldDeadlock("[wait] the operation waits for an array that it holds itself;" + describe(op.label));
  }
  return false;
}

}  // namespace

bool Engine::Impl::is_held_by_caller(const Var& var, AccessMode mode) const {
  for (Running* r = t_running; r; r = r->outer) {
    if (r->engine == this && holds_for_reading(*r->op, var, mode)) return true;
  }
  const OpNode* op = thread_context().op;
  return op && Engine::current().impl() == this && holds_for_reading(*op, var, mode);
}

// Nothing runs, nothing is ready, and nothing that has begun will end by itself: every slot that is taken belongs to an
// operation that waits. A push that is just entering its vars looks like that too, hence a while of looking.
bool Engine::Impl::is_stuck(StuckWatch& watch) const noexcept {
  const uint64_t now = pushed.load(std::memory_order_seq_cst) + done.load(std::memory_order_seq_cst);
  bool idle = blocked.load(std::memory_order_seq_cst) >=
                  active.load(std::memory_order_seq_cst) - spinning.load(std::memory_order_seq_cst) &&
              ending_later.load(std::memory_order_seq_cst) == 0 && !has_work();
  if (!idle || now != watch.progress) watch = {now, Clock::now()};
  return Clock::now() - watch.since > std::chrono::milliseconds(250);
}

void Engine::wait(Var& var, AccessMode mode) {
  ThreadWaiter waiter(var, mode);
  Impl& e = *impl_;
  if (e.is_held_by_caller(var, mode)) return;
  if (e.queue_waiter(waiter)) {
    const uint64_t begin = e.profiler.is_on() ? Profiler::now() : 0;
    const bool inside = t_slot_of == &e && t_running && t_running->engine == &e;
    // what it waits for may become ready with nobody else to run it
    const bool looks_again = t_slot_of == &e || !has_workers();
    auto signalled = [&] { return waiter.is_signalled(); };
    auto until = Clock::now() + e.options.spin;
    StuckWatch watch;
    // Counted as blocked from the first sleep on, as long as there is nothing to run: so the waits of several
    // operations see each other.
    bool is_blocked = false;
    auto set_blocked = [&](bool now) {
      if (inside && is_blocked != now) e.blocked.fetch_add(now ? 1 : -1, std::memory_order_seq_cst);
      is_blocked = inside && now;
    };
    for (int looks = 0; !waiter.is_signalled(); ++looks) {
      if (is_blocked && e.has_work()) set_blocked(false);
      if (!is_blocked && e.help(signalled)) {
        until = Clock::now() + e.options.spin;
      } else if (is_blocked || (looks % 32 == 0 && Clock::now() >= until)) {
        set_blocked(true);
        waiter.sleep(looks_again);
        if (inside && e.is_stuck(watch) && abandon_waiter(waiter)) {
          set_blocked(false);
          throw WouldDeadlock("[wait] the operation waits for an array that can only be written after it has ended;" +
                              describe(t_running->op->label));
        }
      } else {
        cpu_pause();
      }
    }
    set_blocked(false);
    if (begin)
      e.profiler.record(
          {.name = "wait", .category = "wait", .begin = begin, .end = Profiler::now(), .sequence = waiter.ended_by});
  }
  if (waiter.error) throw_op_error(*waiter.error);
}

void Engine::Impl::wait_for_level(uint64_t level, Limits* limits) {
  const LevelWaiter waiter{{}, nullptr, level, IntrusivePtr<Limits>(limits), nullptr};
  auto reached = [&] { return waiter.is_over(in_flight()); };
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
  impl_->refuse_inside("wait_all");
  if (impl_->is_orphan() && impl_->in_flight() > 0) Impl::throw_orphan();
  {
    TraceSpan span(impl_->profiler, "waitall", "wait");
    impl_->wait_for_level(0);
  }
  if (std::exception_ptr e = take_unreported()) std::rethrow_exception(e);
}

void Engine::Impl::refuse_inside(const char* what) const {
  const OpNode* op = self.on_worker()                   ? t_running->op
                     : Engine::current().impl() == this ? thread_context().op
                                                        : nullptr;
  if (!op) return;
  throw WouldDeadlock("[" + std::string(what) + "] called inside an operation, which would wait for itself;" +
                      describe(op->label));
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
  wait_for_level(resume_level(), self.active_limits());
}

void Engine::Impl::count_parked(uint64_t level, int change) noexcept {
  if (level > 0) parked_for_room.fetch_add(change, std::memory_order_seq_cst);
  parked.fetch_add(change, std::memory_order_seq_cst);
}

void Engine::Impl::check_parked() {
  uint64_t n = in_flight();
  if (n > (parked_for_room.load(std::memory_order_seq_cst) > 0 ? resume_level() : 0)) return;
  resume_waiters();
}

void Engine::Impl::resume_waiters() {
  std::vector<LevelWaiter> resumed;
  {
    std::lock_guard lock(park_mutex);
    const uint64_t n = in_flight();
    std::vector<std::pair<uint64_t, Limits*>> full;  // whoever waits for the same as an earlier one stays behind it
    std::vector<LevelWaiter> left;
    for (LevelWaiter& w : level_waiters) {
      const std::pair<uint64_t, Limits*> wanted(w.level, w.limits.get());
      if (std::find(full.begin(), full.end(), wanted) == full.end()) {
        if (w.is_over(n)) {
          resumed.push_back(std::move(w));
          continue;
        }
        full.push_back(wanted);
      }
      left.push_back(std::move(w));
    }
    level_waiters.swap(left);
    for (const LevelWaiter& w : resumed) count_parked(w.level, -1);
  }
  park.notify_all();
  for (LevelWaiter& w : resumed) w.stop.reset();  // before the first one goes on: then the engine may end
  for (LevelWaiter& w : resumed) w.executor->post(w.work);
}

void LevelWaiter::Look::operator()() const { engine.resume_waiters(); }

void Engine::Impl::on_level(LevelWaiter waiter) {
  if (is_orphan()) throw_orphan();
  if (waiter.limits && waiter.limits->stop_token().stop_possible()) {
    // not under the lock: it may be called at once
    waiter.stop =
        std::make_unique<std::stop_callback<LevelWaiter::Look>>(waiter.limits->stop_token(), LevelWaiter::Look{*this});
  }
  {
    std::lock_guard lock(park_mutex);
    count_parked(waiter.level, 1);  // before looking again, as above
    level_waiters.push_back(std::move(waiter));
  }
  resume_waiters();
  serve();
}

void Engine::on_idle(std::coroutine_handle<> work, Executor& executor) {
  impl_->refuse_inside("idle");
  impl_->on_level({work, &executor, 0, {}, nullptr});
}
void Engine::on_room(std::coroutine_handle<> work, Executor& executor) {
  impl_->on_level({work, &executor, impl_->resume_level(), IntrusivePtr<Limits>(active_limits()), nullptr});
}
bool Engine::is_over_budget() const {
  // what an operation waits for might be room that only its own end makes
  if (on_worker() || thread_context().op) return false;
  const Limits* limits = active_limits();
  return impl_->in_flight() >= uint64_t(impl_->options.max_in_flight) || (limits && !limits->has_room());
}

bool Engine::admits_now() const {
  return !is_over_budget() &&
         (impl_->parked_for_room.load(std::memory_order_seq_cst) == 0 || on_worker() || thread_context().op);
}

IdleAwaiter Engine::idle() { return IdleAwaiter(*this); }
AdmitAwaiter Engine::admit() { return AdmitAwaiter(*this); }

}  // namespace kaon
