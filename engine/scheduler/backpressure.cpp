#include "kaon/engine/scheduler/backpressure.h"

#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "kaon/engine/device/gpu.h"
#include "kaon/engine/scheduler/engine_impl.h"

namespace kaon::engine {

using Clock = std::chrono::steady_clock;

// One wait. A coroutine's has an executor, a thread's has none.
class Backpressure::Waiter {
 public:
  Waiter(Backpressure& backpressure, uint64_t level, MemoryBudget* budget, std::coroutine_handle<> work = {},
         Executor* executor = nullptr)
      : backpressure_(backpressure), level_(level), budget_(budget), work_(work), executor_(executor) {}
  ~Waiter() { leave(); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  bool is_over(uint64_t in_flight) const noexcept {
    if (in_flight == 0 || (budget_ && budget_->is_stopped())) return true;
    return in_flight <= level_ && (waits_for_bytes_ ? is_over_for_bytes() : !budget_ || budget_->has_room());
  }
  bool is_over_for_bytes() const noexcept {
    const uint64_t left = left_.load(std::memory_order_seq_cst), pending = pushed_ - done_;
    return left == 0 ||
           (budget_->has_room() && (executor_ || left <= pending - pending / 4 || budget_->has_much_room()));
  }
  bool waits_for_bytes() const noexcept { return waits_for_bytes_; }
  bool is_for_room() const noexcept { return level_ > 0; }
  bool waits_for_same(const Waiter& o) const noexcept { return level_ == o.level_ && budget_ == o.budget_; }

  // From now on bytes that are given back, and the ends of operations that are pending now, end this wait.
  void wait_for_bytes();
  // An operation has ended, as operation_ended() says. Under bytes_mutex_.
  void operation_ended(uint64_t sequence, uint64_t ended_before) noexcept {
    if (sequence <= pushed_ && ended_before >= done_) left_.fetch_sub(1, std::memory_order_seq_cst);
  }
  void look_when_stopped();  // a stop request of the scope ends it too
  void leave() noexcept;     // ends both
  void post() noexcept { post_surely(*executor_, work_); }

  const Waiter* next_full = nullptr;  // of resume_due()
  Waiter* next_for_bytes = nullptr;   // of waits_for_bytes_

 private:
  struct Look {
    Backpressure& backpressure;
    void operator()() const { backpressure.resume_due(); }
  };

  Backpressure& backpressure_;
  const uint64_t level_;
  const IntrusivePtr<MemoryBudget> budget_;
  const std::coroutine_handle<> work_;
  Executor* const executor_;
  std::optional<std::stop_callback<Look>> stop_;
  bool waits_for_bytes_ = false;
  uint64_t done_ = 0, pushed_ = 0;  // when the wait for bytes began
  std::atomic<uint64_t> left_{0};   // of the operations that were pending then
};

void Backpressure::Waiter::wait_for_bytes() {
  budget_->begin_wait(backpressure_);
  Backpressure& b = backpressure_;
  std::lock_guard lock(b.bytes_mutex_);
  waits_for_bytes_ = true;
  b.parked_.fetch_add(1, std::memory_order_seq_cst);
  b.waits_for_bytes_count_.fetch_add(1, std::memory_order_seq_cst);
  // In this order: every operation counted in done_ is counted in pushed_. One that ends later sees this wait, since it
  // counts itself before it checks whether anything is parked.
  done_ = b.counts_.done();
  pushed_ = b.counts_.pushed();
  left_.store(pushed_ - done_, std::memory_order_seq_cst);
  next_for_bytes = std::exchange(b.waits_for_bytes_, this);
}

void Backpressure::Waiter::look_when_stopped() {
  if (budget_ && budget_->stop_token().stop_possible()) stop_.emplace(budget_->stop_token(), Look{backpressure_});
}

void Backpressure::Waiter::leave() noexcept {
  stop_.reset();
  if (!waits_for_bytes_) return;
  Backpressure& b = backpressure_;
  {
    std::lock_guard lock(b.bytes_mutex_);
    Waiter** at = &b.waits_for_bytes_;
    while (*at != this) at = &(*at)->next_for_bytes;
    *at = next_for_bytes;
    b.waits_for_bytes_count_.fetch_sub(1, std::memory_order_seq_cst);
    b.parked_.fetch_sub(1, std::memory_order_seq_cst);
  }
  waits_for_bytes_ = false;
  budget_->end_wait();
}

// Coroutines whose wait is over, in the order in which they are posted.
struct Backpressure::DueQueue {
  std::mutex mutex;
  std::list<Waiter> waiters;
  bool is_being_posted = false;  // by a thread that takes later ones too

  void post_all(std::unique_lock<std::mutex> lock) noexcept;
};

// Posts without the mutex: an executor may run the coroutine at once, which may come back to here.
void Backpressure::DueQueue::post_all(std::unique_lock<std::mutex> lock) noexcept {
  if (is_being_posted) return;
  is_being_posted = true;
  while (!waiters.empty()) {
    std::list<Waiter> some = std::move(waiters);
    waiters.clear();
    lock.unlock();
    for (Waiter& w : some) w.leave();  // before the first one resumes: then the engine may end
    for (Waiter& w : some) w.post();
    some.clear();
    lock.lock();
  }
  is_being_posted = false;
}

Backpressure::Backpressure(Engine::Impl& engine)
    : engine_(engine),
      counts_(engine.counts),
      max_in_flight_(uint64_t(engine.options.max_in_flight)),
      due_(std::make_shared<DueQueue>()) {}
Backpressure::~Backpressure() = default;

void Backpressure::throttle() {
  if (t_running || thread_context().in_task) return;
  wait_until(resume_level(), engine_.self.active_budget());
}

void Backpressure::wait_until(uint64_t level, MemoryBudget* budget) {
  Waiter waiter(*this, level, budget);
  auto reached = [&] { return waiter.is_over(counts_.in_flight()); };
  SpinningWaiter spinning(engine_);
  auto until = Clock::now() + engine_.options.spin;
  for (int looks = 0; !reached(); ++looks) {
    if (budget && !waiter.waits_for_bytes() && !budget->has_room()) waiter.wait_for_bytes();
    if (engine_.workers.help(reached, &spinning)) {
      until = Clock::now() + engine_.options.spin;
    } else if (looks % 32 == 0 && Clock::now() >= until) {
      spinning.end();
      std::unique_lock lock(park_mutex_);
      park(waiter);  // before checking again: operation_ended() sees this waiter, or this thread sees its count
      // in slices: a slot may become free, so that this thread can help
      park_.wait_for(lock, std::chrono::milliseconds(10), reached);
      unpark(waiter);
      lock.unlock();
      spinning.begin();
    } else {
      engine_.workers.back_off(looks);
    }
  }
}

void Backpressure::count(const Waiter& waiter, int change) noexcept {
  if (waiter.is_for_room()) parked_for_room_.fetch_add(change, std::memory_order_seq_cst);
  if (waiter.is_for_room() && !waiter.waits_for_bytes()) parked_for_ops_.fetch_add(change, std::memory_order_seq_cst);
  parked_.fetch_add(change, std::memory_order_seq_cst);
}

// Called by threads that free bytes and may hold locks, so it resumes nothing itself.
void Backpressure::bytes_given_back() noexcept {
  if (!has_wait_for_bytes_over()) return;
  if (will_look_.exchange(true, std::memory_order_seq_cst)) return;
  try {
    engine_.io.call([this] {
      will_look_.store(false, std::memory_order_seq_cst);  // before checking: bytes freed during it post again
      resume_due();
    });
  } catch (...) {                                        // no memory
    will_look_.store(false, std::memory_order_seq_cst);  // the next operation's end checks
  }
}

bool Backpressure::has_wait_for_bytes_over() {
  std::lock_guard lock(bytes_mutex_);
  for (const Waiter* w = waits_for_bytes_; w; w = w->next_for_bytes) {
    if (w->is_over_for_bytes()) return true;
  }
  return false;
}

// Wakes only waiters whose wait is over.
void Backpressure::operation_ended(uint64_t sequence, uint64_t ended_before) noexcept {
  bool has_room = parked_for_ops_.load(std::memory_order_seq_cst) > 0;
  if (waits_for_bytes_count_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard lock(bytes_mutex_);
    for (Waiter* w = waits_for_bytes_; w; w = w->next_for_bytes) {
      w->operation_ended(sequence, ended_before);
      has_room |= w->is_over_for_bytes();
    }
  }
  if (counts_.in_flight() <= (has_room ? resume_level() : 0)) resume_due();
}

void Backpressure::resume_due() noexcept {
  const std::shared_ptr<DueQueue> due = due_;
  std::unique_lock posting(due->mutex, std::defer_lock);
  {
    std::list<Waiter> over;
    std::lock_guard lock(park_mutex_);
    const uint64_t n = counts_.in_flight();
    const Waiter* full = nullptr;  // waiters for the same level and budget are resumed in order
    for (auto w = queue_.begin(); w != queue_.end();) {
      const auto at = w++;
      const Waiter* same = full;
      while (same && !same->waits_for_same(*at)) same = same->next_full;
      if (same) continue;
      if (at->is_over(n)) {
        over.splice(over.end(), queue_, at);
      } else {
        at->next_full = std::exchange(full, &*at);
      }
    }
    for (const Waiter& w : over) unpark(w);
    park_.notify_all();
    posting.lock();  // before the next thread can find later ones over
    due->waiters.splice(due->waiters.end(), over);
  }
  due->post_all(std::move(posting));
}

void Backpressure::resume_when(std::coroutine_handle<> work, Executor& executor, uint64_t level, MemoryBudget* budget) {
  if (engine_.is_gone()) engine_.throw_gone();
  std::list<Waiter> one;
  Waiter& waiter = one.emplace_back(*this, level, budget, work, &executor);
  waiter.look_when_stopped();  // not under the lock: it may be called at once
  if (budget && budget->has_limit()) waiter.wait_for_bytes();
  {
    std::lock_guard lock(park_mutex_);
    park(waiter);  // before checking again, as above
    queue_.splice(queue_.end(), one);
  }
  resume_due();
  engine_.workers.serve();
}

void Backpressure::resume_when_room(std::coroutine_handle<> work, Executor& executor) {
  resume_when(work, executor, resume_level(), engine_.self.active_budget());
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

void Backpressure::resume_when_idle(std::coroutine_handle<> work, Executor& executor) {
  if (Gpu::all().empty()) return resume_when(work, executor, 0, nullptr);
  auto after = std::make_unique<AfterGpus>(executor);
  resume_when(work, *after, 0, nullptr);
  (void)after.release();  // it destroys itself
}

void Backpressure::until_there_is_memory(FunctionRef<void()> attempt) noexcept {
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    try {
      return attempt();
    } catch (const std::bad_alloc&) {
    } catch (const MemoryError&) {
    }
    Storage::cpu().trim();
  }
}

}  // namespace kaon::engine
