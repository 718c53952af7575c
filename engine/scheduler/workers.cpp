// Slots, workers and the operations that they run.
#include <boost/asio/bind_allocator.hpp>

#include "kaon/engine/scheduler/engine_impl.h"

namespace kaon {
namespace {
using Clock = std::chrono::steady_clock;
}  // namespace

OpNode* Engine::Impl::pop() noexcept {
  if (chosen) [[unlikely]]
    return chosen->pick();
  if (uses_priorities.load(std::memory_order_relaxed)) {
    if (OpNode* op = ready[size_t(Priority::high)].pop()) return op;
    if (OpNode* op = ready[size_t(Priority::normal)].pop()) return op;
    return ready[size_t(Priority::low)].pop();
  }
  return ready[size_t(Priority::normal)].pop();
}

bool Engine::Impl::has_work() const noexcept {
  if (chosen) [[unlikely]]
    return !chosen->is_empty();
  return !ready[0].is_empty() || !ready[1].is_empty() || !ready[2].is_empty();
}

SerialQueue* Engine::Impl::serial_queue_of(const OpNode& op) noexcept {
  if (!op.type->serial_queue || threads < 2 || chosen) return nullptr;
  return &serial_queues[op.type->serial_queue(op) % serial_queues.size()];
}

void Engine::Impl::make_ready(OpNode& op) noexcept {
  if (chosen) [[unlikely]]
    return chosen->add(op);
  SerialQueue* const serial_queue = serial_queue_of(op);
  if (!serial_queue) return put(op);
  if (serial_queue->enter(op)) put(serial_queue->take());
}

void Engine::Impl::put(OpNode& op) noexcept {
  ready[size_t(op.priority)].push(op);
  wake();
}

void Engine::Impl::wake() noexcept {
  if (!pool || spinning.load(std::memory_order_seq_cst) > 0) return;  // pairs with drain's leaving
  if (looking.load(std::memory_order_seq_cst) > 0 && active.load(std::memory_order_seq_cst) < threads) return;
  // when all slots run operations, they look at the queue when they finish one
  if (active.load(std::memory_order_seq_cst) >= threads) return;
  void* const memory = calls.take();  // before the slot: without memory, holding it would turn another worker away
  if (!memory) return;
  if (!take_slot()) return calls.give(memory);
  spinning.fetch_add(1, std::memory_order_seq_cst);
  coming.fetch_add(1, std::memory_order_seq_cst);
  boost::asio::post(*pool, boost::asio::bind_allocator(CallAllocator<void>(calls, memory), [this] { drain(); }));
}

void IoExecutor::post(std::coroutine_handle<> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push(work);
  }
  call();
}

void IoExecutor::call() noexcept {
  void* const memory = calls_.take();
  if (!memory) return;  // as many threads as there are have been called and have yet to look at the queue
  boost::asio::post(pool_, boost::asio::bind_allocator(CallAllocator<void>(calls_, memory), [this] { run_one(); }));
}

void IoExecutor::run_one() {
  std::unique_lock lock(mutex_);
  const std::coroutine_handle<> work = queue_.pop();
  const bool has_more = !queue_.is_empty();
  lock.unlock();
  if (has_more) call();
  if (work) resume_coroutine(work);
}

bool Engine::Impl::take_slot() noexcept {
  int a = active.load(std::memory_order_seq_cst);
  while (a < threads) {
    if (active.compare_exchange_weak(a, a + 1, std::memory_order_seq_cst)) return true;
  }
  return false;
}

bool Engine::Impl::claim_coming() noexcept {
  int n = coming.load(std::memory_order_seq_cst);
  while (n > 0) {
    if (coming.compare_exchange_weak(n, n - 1, std::memory_order_seq_cst)) return true;
  }
  return false;
}

bool Engine::Impl::take_over_slot() noexcept {
  if (!claim_coming()) return false;
  spinning.fetch_sub(1, std::memory_order_seq_cst);
  return true;
}

void Engine::Impl::give_slot() noexcept { active.fetch_sub(1, std::memory_order_seq_cst); }

void Engine::Impl::drain() {
  if (!claim_coming()) {  // a waiting thread has taken the slot
    if (!has_work() || !take_slot()) return;
    spinning.fetch_add(1, std::memory_order_seq_cst);
  }
  t_slot_of = this;
  thread_context() = ThreadContext{.engine = self.ref()};
  // With one slot no thread needs to know whether its holder looks for work.
  const bool count_spinning = threads > 1;
  if (!count_spinning) spinning.fetch_sub(1, std::memory_order_seq_cst);  // as below: before the last look at the queue
  bool is_spinning = count_spinning;                                      // wake() has counted it
  // A worker that just ran parallel_for pieces will likely be needed again; keep it spinning instead of waking another.
  bool will_be_asked = false;
  for (;;) {
    if (OpNode* op = pop()) {
      if (is_spinning) {
        is_spinning = false;
        // no other thread looks for work now: if there is more, start another worker
        if (spinning.fetch_sub(1, std::memory_order_seq_cst) == 1 && has_work()) wake();
      }
      end_helping();
      run_chain(op);
      will_be_asked = std::exchange(t_has_shared, false);
      continue;
    }
    bool look = true;
    if (count_spinning && !is_spinning) {
      is_spinning = true;
      look = spinning.fetch_add(1, std::memory_order_seq_cst) == 0 || will_be_asked;  // one spinning worker is enough
    }
    end_helping();
    if (look && wait_for_work(will_be_asked ? 10 * options.spin : options.spin)) continue;
    if (is_spinning) spinning.fetch_sub(1, std::memory_order_seq_cst);
    is_spinning = false;
    give_slot();
    // work may have arrived between the last look and giving up the slot
    if (!has_work() || !take_slot()) break;
  }
  t_slot_of = nullptr;
}

bool Engine::Impl::wait_for_work(std::chrono::microseconds time) const noexcept {
  const auto until = Clock::now() + time;
  for (int looks = 0; !has_work(); ++looks) {
    if (looks % 32 == 31 && Clock::now() >= until) return false;
    // the kernel may have put a woken thread behind this one although another core is free; it rebalances seldom, so
    // that thread would wait milliseconds behind an operation that begins here
    if (looks % 256 == 255) {
      std::this_thread::yield();
    } else {
      cpu_pause();
    }
  }
  return true;
}

void Engine::Impl::run_chain(OpNode* op, FunctionRef<bool()>* stop) {
  if (chosen) [[unlikely]] {
    if (OpNode* next = execute(*op)) chosen->add(*next);  // one choice among the others
    return;
  }
  if (threads == 0) {
    // serial: runs everything that the chain makes ready before the push returns
    while (op) {
      while (op) op = execute(*op);
      op = pop();
    }
    return;
  }
  while (op) {
    SerialQueue* const serial_queue = serial_queue_of(*op);
    op = execute(*op);
    if (OpNode* next = serial_queue ? serial_queue->leave() : nullptr) {
      if (op) put(*op);
      op = next;
    }
    if (op && stop && (*stop)()) {
      put(*op);
      return;
    }
    if (op && uses_priorities.load(std::memory_order_relaxed)) {
      // an inline successor yields to a higher class
      for (int p = 0; p < int(op->priority); ++p) {
        if (OpNode* higher = ready[p].pop()) {
          put(*std::exchange(op, higher));
          break;
        }
      }
    }
  }
}

bool Engine::Impl::help(FunctionRef<bool()> done_waiting, Looking* looking) {
  if (!has_work()) return false;  // without taking a slot: parallel_for counts free ones
  const bool holds = t_slot_of == this;
  if (!holds && !take_slot() && !take_over_slot()) return false;
  if (holds) nested.fetch_add(1, std::memory_order_seq_cst);
  Impl* saved = std::exchange(t_slot_of, this);
  ThreadContext saved_context = std::exchange(thread_context(), ThreadContext{.engine = self.ref()});
  const bool was_helping = std::exchange(t_is_helping, false);  // the piece that waits stays counted
  bool ran = false;
  while (!done_waiting()) {
    OpNode* op = pop();
    if (!op) break;
    if (!std::exchange(ran, true) && looking) looking->end();
    end_helping();
    run_chain(op, &done_waiting);
  }
  thread_context() = saved_context;
  t_slot_of = saved;
  if (holds) {
    nested.fetch_sub(1, std::memory_order_seq_cst);
  } else {
    give_slot();
    if (has_work()) wake();
  }
  end_helping();
  t_is_helping = was_helping;
  if (ran && looking) looking->begin();
  return ran;
}

void Engine::Impl::run_serial(OpNode& op) {
  const bool holds = t_slot_of == this;
  if (!holds) active.fetch_add(1, std::memory_order_seq_cst);
  Impl* saved = std::exchange(t_slot_of, this);
  ThreadContext saved_context = std::exchange(thread_context(), ThreadContext{.engine = self.ref()});
  run_chain(&op);
  thread_context() = saved_context;
  t_slot_of = saved;
  if (!holds) active.fetch_sub(1, std::memory_order_seq_cst);
}

void Engine::Impl::proceed(OpNode& op) {
  if (threads == 0 && t_slot_of != this) {
    run_serial(op);
  } else {
    make_ready(op);  // in serial mode the chain that this thread runs continues with it
  }
}

void Engine::Impl::serve_later() noexcept {
  if (serves_later.exchange(true)) return;
  for (;;) {
    try {
      auto timer = std::make_shared<PoolTimer>(io.get_executor(), std::chrono::milliseconds(1));
      timer->async_wait([this, timer](const boost::system::error_code&) {
        serves_later = false;
        serve();
      });
      return;
    } catch (const std::bad_alloc&) {  // runs the work here, until it is done or there is memory
    }
    help([] { return false; });
    if (!has_work()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  serves_later = false;
}

void Engine::Impl::run_burst() {
  if (t_running) return;  // pushed by an operation
  size_t left = chosen->burst();
  if (left > 0) help([&] { return left-- == 0; });
}

bool Engine::help_once() {
  int runs = 0;
  auto once = [&] { return runs++ > 0; };
  return impl_->help(once);
}

}  // namespace kaon
