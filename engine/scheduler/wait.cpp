// Threads that wait: for a var, for everything, for room.
#include <algorithm>
#include <functional>
#include <list>
#include <thread>

#include "kaon/engine/device/gpu.h"
#include "kaon/engine/scheduler/engine_impl.h"

namespace kaon {
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

bool Engine::Impl::queue_waiter(WaitNode& waiter, const OpNode* op, bool has_thread) {
  if (is_gone()) [[unlikely]] {
    check_finished(*waiter.dep.var());
    waiter.error = IntrusivePtr<const OpError>(waiter.dep.var()->error());
    return false;
  }
  struct Registration {  // made before it is queued, since it may be signalled at once
    Impl* engine = nullptr;
    WaitNode& waiter;
    ~Registration() {
      if (engine) engine->end_op_wait(waiter);
    }
  } registration{nullptr, waiter};
  if (op) {
    begin_op_wait(waiter, *op, has_thread);
    registration.engine = this;
  }
  Var& var = *waiter.dep.var();
  std::unique_lock lock(var);
  bool now = waiter.dep.mode() == AccessMode::read ? var.is_readable() : var.is_idle();
  if (now) {
    waiter.error = IntrusivePtr<const OpError>(var.error());
    return false;
  }
  if (waiter.abandoned) return false;
  if (op) refuse_if_held_below(var);
  waiter.pending.store(1, std::memory_order_relaxed);
  SharedReadLease* ended = nullptr;
  if (waiter.dep.is_write() && var.has_read_leases()) SharedReadLease::end_all_at(var, ended);
  var.append(waiter.dep);  // not granted: an access is in front
  registration.engine = nullptr;
  lock.unlock();
  SharedReadLease::give_back_all(ended, [this](Dep* list) { grant_all(list); });  // the waiter may be destroyed by then
  return true;
}

bool Engine::enqueue_waiter(WaitNode& waiter, const Executor* resumes_on) {
  Impl& e = *impl_;
  if (resumes_on && e.is_held_by_caller(*waiter.dep.var(), waiter.dep.mode())) return false;
  const bool queued = e.queue_waiter(waiter, resumes_on ? e.callers_op() : nullptr, resumes_on != &e.io_executor);
  if (queued) e.serve();  // the waiter may be destroyed by then
  return queued;
}

bool Engine::abandon_waiter(WaitNode& waiter) {
  Var& var = *waiter.dep.var();
  Dep* granted = nullptr;
  bool removed = var.remove(waiter.dep, granted, waiter.abandoned);
  if (removed && impl_->op_waits.count.load(std::memory_order_seq_cst) > 0) impl_->end_op_wait(waiter);
  impl_->grant_all(granted);
  return removed;
}

void Engine::Impl::grant_all(Dep* list) noexcept {
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
  if (impl_->is_gone()) [[unlikely]] {
    impl_->check_finished(var);
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
      engine.grant_all(grant.var()->complete(grant));
      engine.reading_now.fetch_sub(1, std::memory_order_seq_cst);
    }
    Impl& engine;
    Dep& grant;
  } end{*impl_, grant};
  impl_->reading_now.fetch_add(1, std::memory_order_seq_cst);
  body();
  return true;
}

void Engine::wait(Var& var, AccessMode mode) {
  Impl& e = *impl_;
  if (e.is_held_by_caller(var, mode)) return;
  ThreadWaiter waiter(var, mode);
  const OpNode* op = e.callers_op();
  if (e.queue_waiter(waiter, op, true)) {
    const uint64_t begin = e.profiler.is_on() ? Profiler::now() : 0;
    // the operation that it waits for may become ready with no other thread to run it, or never
    const bool looks_again = op || t_slot_of == &e || !has_workers();
    auto signalled = [&] { return waiter.is_signalled(); };
    Looking looking(e);
    auto until = Clock::now() + e.options.spin;
    for (int looks = 0; !waiter.is_signalled(); ++looks) {
      if (e.help(signalled, &looking)) {
        until = Clock::now() + e.options.spin;
      } else if (looks % 32 == 0 && Clock::now() >= until) {
        looking.end();
        waiter.sleep(looks_again);
        looking.begin();
        if (op) e.fail_if_stuck();
      } else {
        e.back_off(looks);
      }
    }
    if (begin)
      e.profiler.record(
          {.name = "wait", .category = "wait", .begin = begin, .end = Profiler::now(), .sequence = waiter.ended_by});
  }
  if (waiter.error) throw_op_error(*waiter.error);
}

// Work and a free slot that no worker takes: the worker may be waiting for this thread's core. With several waiting
// threads other ones have the cores.
void Engine::Impl::back_off(int looks) const noexcept {
  if (looks == 64 && has_work() && looking.load(std::memory_order_relaxed) <= 1) {
    std::this_thread::yield();
  } else {
    cpu_pause();
  }
}

void Engine::Impl::wait_for_level(uint64_t level, MemoryBudget* budget) {
  ThrottleWaiter waiter({}, nullptr, level, budget);
  auto reached = [&] { return waiter.is_over(in_flight()); };
  Looking looking(*this);
  auto until = Clock::now() + options.spin;
  for (int looks = 0; !reached(); ++looks) {
    if (budget && !waiter.room && !budget->has_room()) waiter.room.emplace(*this, *budget, true);
    if (help(reached, &looking)) {
      until = Clock::now() + options.spin;
    } else if (looks % 32 == 0 && Clock::now() >= until) {
      looking.end();
      std::unique_lock lock(park_mutex);
      count_parked(waiter, 1);  // before checking again: finish() sees this waiter, or this thread sees its count
      // in slices: a slot may become free, so that this thread can help
      park.wait_for(lock, std::chrono::milliseconds(10), reached);
      count_parked(waiter, -1);
      lock.unlock();
      looking.begin();
    } else {
      back_off(looks);
    }
  }
}

void Engine::wait_all() {
  impl_->refuse_inside("wait_all");
  if (impl_->is_gone() && impl_->in_flight() > 0) impl_->throw_gone();
  {
    TraceSpan span(impl_->profiler, "waitall", "wait");
    impl_->wait_for_level(0);
    Gpu::wait_for_all();
  }
  if (std::exception_ptr e = take_unreported()) std::rethrow_exception(e);
}

std::exception_ptr Engine::take_unreported() {
  try {
    Gpu::is_idle();
  } catch (const DeviceError&) {  // thrown at every call from now on; the other failures stay unreported
    return std::current_exception();
  }
  return impl_->failures.take_unreported();
}

void Engine::Impl::throttle() {
  // Operations and Tasks never block in a push: they might wait for themselves.
  if (t_running || thread_context().in_task) return;
  wait_for_level(resume_level(), self.active_budget());
}

void Engine::Impl::count_parked(const ThrottleWaiter& waiter, int change) noexcept {
  if (waiter.level > 0) parked_for_room.fetch_add(change, std::memory_order_seq_cst);
  if (waiter.level > 0 && !waiter.room) parked_for_ops.fetch_add(change, std::memory_order_seq_cst);
  parked.fetch_add(change, std::memory_order_seq_cst);
}

BudgetWait::BudgetWait(Engine::Impl& engine, MemoryBudget& budget, bool is_thread)
    : engine_(engine), budget_(budget), is_thread_(is_thread) {
  budget.begin_wait(engine.self);
  std::lock_guard lock(engine.room_mutex);
  engine.parked.fetch_add(1, std::memory_order_seq_cst);
  engine.room_wait_count.fetch_add(1, std::memory_order_seq_cst);
  // In this order: every operation counted in done_ is counted in pushed_. One that ends later sees this wait, since it
  // counts itself before it checks whether anything is parked.
  done_ = engine.done.load(std::memory_order_seq_cst);
  pushed_ = engine.pushed.load(std::memory_order_seq_cst);
  left_.store(pushed_ - done_, std::memory_order_seq_cst);
  next = std::exchange(engine.room_waits, this);
}

BudgetWait::~BudgetWait() {
  {
    std::lock_guard lock(engine_.room_mutex);
    BudgetWait** at = &engine_.room_waits;
    while (*at != this) at = &(*at)->next;
    *at = next;
    engine_.room_wait_count.fetch_sub(1, std::memory_order_seq_cst);
    engine_.parked.fetch_sub(1, std::memory_order_seq_cst);
  }
  budget_.end_wait();
}

void MemoryBudget::begin_wait(Engine& engine) noexcept {
  for (MemoryBudget* l = this; l; l = l->outer_.get()) {
    std::lock_guard lock(l->wait_mutex_);
    l->engine_ = &engine;
    l->forks_.store(g_forks.load(std::memory_order_relaxed), std::memory_order_relaxed);
    l->waiters_.fetch_add(1, std::memory_order_seq_cst);
  }
}

void MemoryBudget::end_wait() noexcept {
  for (MemoryBudget* l = this; l; l = l->outer_.get()) {
    std::lock_guard lock(l->wait_mutex_);
    l->waiters_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

void MemoryBudget::call_engine() noexcept {
  // in a forked child a thread that does not exist there may hold the mutex
  if (forks_.load(std::memory_order_relaxed) != g_forks.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(wait_mutex_);
  // while it has waiters the engine lives, and they need this mutex to end their wait
  if (waiters_.load(std::memory_order_seq_cst) > 0) engine_->impl()->schedule_recheck();
}

// Called by threads that free bytes and may hold locks, so it resumes nothing itself.
void Engine::Impl::schedule_recheck() noexcept {
  if (!has_room_wait_over()) return;
  if (looks_later.exchange(true, std::memory_order_seq_cst)) return;
  try {
    boost::asio::post(io, [this] {
      looks_later.store(false, std::memory_order_seq_cst);  // before checking: bytes freed during it post again
      resume_waiters();
    });
  } catch (...) {                                         // no memory
    looks_later.store(false, std::memory_order_seq_cst);  // the next operation's end checks
  }
}

bool Engine::Impl::has_room_wait_over() {
  std::lock_guard lock(room_mutex);
  for (const BudgetWait* w = room_waits; w; w = w->next) {
    if (w->is_over()) return true;
  }
  return false;
}

// Wakes only waiters whose wait is over.
void Engine::Impl::check_parked(uint64_t sequence, uint64_t ended_before) noexcept {
  bool has_room = parked_for_ops.load(std::memory_order_seq_cst) > 0;
  if (room_wait_count.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard lock(room_mutex);
    for (BudgetWait* w = room_waits; w; w = w->next) {
      w->operation_ended(sequence, ended_before);
      has_room |= w->is_over();
    }
  }
  if (in_flight() <= (has_room ? resume_level() : 0)) resume_waiters();
}

void Engine::Impl::resume_waiters() noexcept {
  std::list<ThrottleWaiter> resumed;
  {
    std::lock_guard lock(park_mutex);
    const uint64_t n = in_flight();
    const ThrottleWaiter* full = nullptr;  // waiters for the same level and budget are resumed in order
    for (auto w = level_waiters.begin(); w != level_waiters.end();) {
      const auto at = w++;
      const ThrottleWaiter* same = full;
      while (same && !same->waits_for_same(*at)) same = same->next_full;
      if (same) continue;
      if (at->is_over(n)) {
        resumed.splice(resumed.end(), level_waiters, at);
      } else {
        at->next_full = std::exchange(full, &*at);
      }
    }
    for (const ThrottleWaiter& w : resumed) count_parked(w, -1);
  }
  park.notify_all();
  for (ThrottleWaiter& w : resumed) {  // before the first one resumes: then the engine may end
    w.stop.reset();
    w.room.reset();
  }
  for (ThrottleWaiter& w : resumed) post_surely(*w.executor, w.work);
}

void ThrottleWaiter::Look::operator()() const { engine.resume_waiters(); }

void Engine::Impl::on_level(std::coroutine_handle<> work, Executor& executor, uint64_t level, MemoryBudget* budget) {
  if (is_gone()) throw_gone();
  std::list<ThrottleWaiter> one;
  ThrottleWaiter& waiter = one.emplace_back(work, &executor, level, budget);
  if (budget && budget->stop_token().stop_possible()) {
    waiter.stop.emplace(budget->stop_token(),
                        ThrottleWaiter::Look{*this});  // not under the lock: it may be called at once
  }
  if (budget && budget->has_limit()) waiter.room.emplace(*this, *budget, false);
  {
    std::lock_guard lock(park_mutex);
    count_parked(waiter, 1);  // before checking again, as above
    level_waiters.splice(level_waiters.end(), one);
  }
  resume_waiters();
  serve();
}

namespace {

// Wraps an executor: posts once the GPUs have run everything launched so far. Destroys itself then.
class AfterGpus final : public Executor {
 public:
  explicit AfterGpus(Executor& executor) : executor_(executor) {}
  void post(std::coroutine_handle<> work) override {
    work_ = work;
    left_ = Gpu::all().size() * lanes + 1;
    for (Gpu* gpu : Gpu::all()) {
      for (size_t lane = 0; lane < lanes; ++lane) {
        // a failure is thrown when the coroutine resumes
        gpu->when_done(Gpu::order().end(gpu->number(Lane(lane))), [this](std::exception_ptr) { count_down(); });
      }
    }
    count_down();
  }

 private:
  void count_down() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    post_surely(executor_, work_);
    delete this;
  }
  Executor& executor_;
  std::coroutine_handle<> work_;
  std::atomic<size_t> left_{0};
};

}  // namespace

void Engine::on_idle(std::coroutine_handle<> work, Executor& executor) {
  impl_->refuse_inside("idle");
  if (Gpu::all().empty()) return impl_->on_level(work, executor, 0, nullptr);
  auto* after = new AfterGpus(executor);
  try {
    impl_->on_level(work, *after, 0, nullptr);
  } catch (...) {
    delete after;
    throw;
  }
}
void Engine::on_room(std::coroutine_handle<> work, Executor& executor) {
  impl_->on_level(work, executor, impl_->resume_level(), active_budget());
}
bool Engine::is_over_budget() const {
  const MemoryBudget* budget = active_budget();
  const bool is_over = impl_->in_flight() >= uint64_t(impl_->options.max_in_flight) || (budget && !budget->has_room());
  // an operation might wait for room that only its own end makes
  return is_over && !on_worker() && !thread_context().op_engine;
}

bool Engine::admits_now() const {
  return !is_over_budget() &&
         (impl_->parked_for_room.load(std::memory_order_seq_cst) == 0 || on_worker() || thread_context().op_engine);
}

}  // namespace kaon
