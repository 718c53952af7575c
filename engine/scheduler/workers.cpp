#include "kaon/engine/scheduler/workers.h"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/post.hpp>
#include <thread>

#include "kaon/engine/base/cores.h"
#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/scheduler/engine_impl.h"

namespace kaon::engine {
namespace {
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int few_calls = 8;  // made in vain, in a row: the next will be, too
constexpr auto nap_time = 50us;
constexpr int longest_idle_naps = 20;
}  // namespace

Workers::Workers(Engine::Impl& engine, int threads, bool has_pool)
    : slots(threads),
      engine_(engine),
      cores_(available_cores()),
      calls_(threads),
      pool_(has_pool ? std::make_unique<WorkerThreads>(threads) : nullptr) {}

void Workers::join() {
  ends_.store(true, std::memory_order_seq_cst);
  if (pool_) pool_->join();
}

void Workers::make_ready(OpNode& op) noexcept {
  if (engine_.ready.add(op)) wake();
}

void Workers::put(OpNode& op) noexcept {
  engine_.ready.add_to_queue(op);
  wake();
}

void Workers::wake() noexcept {
  if (!pool_ || slots.has_spinning()) return;         // pairs with drain's leaving
  if (naps_.load(std::memory_order_seq_cst)) return;  // pairs with nap's end
  if (slots.has_spinning_waiters() && !slots.are_all_taken()) return;
  // when all slots run operations, they look at the queue when they finish one
  if (slots.are_all_taken()) return;
  void* const memory = calls_.take();  // before the slot: without memory, holding it would turn another worker away
  if (!memory) return;
  if (!slots.take()) return calls_.give(memory);
  slots.post();
  boost::asio::post(*pool_, boost::asio::bind_allocator(CallAllocator<void>(calls_, memory), [this] { drain(); }));
}

bool Workers::begin_work() noexcept {
  const bool is_only = slots.count() == 1;
  // A call may take the core from the thread that has made it, just before that runs the operation itself.
  if (is_only && cores_ == 1) std::this_thread::yield();
  if (slots.claim_posted()) {
    if (is_only) vain_calls_ = 0;
    return true;
  }
  // A waiting thread has taken the slot.
  if (is_only && ++vain_calls_ >= few_calls) return nap();
  if (engine_.ready.is_empty() || !slots.take()) return false;
  slots.begin_spinning();
  return true;
}

// Calling a sleeping thread costs the caller 10 us, which are wasted where each push is followed by a wait that runs
// the operation itself. While that goes on, the worker of an engine with one slot looks by itself whether it is
// needed after all: the first operation that nobody waits for begins as much later as a nap takes.
bool Workers::nap() noexcept {
  naps_.store(true, std::memory_order_seq_cst);
  uint64_t done = engine_.counts.done();
  bool has_slot = false;
  for (int idle = 0; idle < longest_idle_naps && !ends_.load(std::memory_order_seq_cst);) {
    std::this_thread::sleep_for(nap_time);
    has_slot = slots.claim_posted();  // by a thread that had not seen that the worker naps
    if (has_slot) break;
    uint64_t now_done = engine_.counts.done();
    if (!engine_.ready.is_empty()) {
      if (cores_ == 1) std::this_thread::yield();  // as in begin_work
      const uint64_t before = std::exchange(now_done, engine_.counts.done());
      if (before == now_done && !engine_.ready.is_empty() && slots.take()) {
        slots.begin_spinning();
        has_slot = true;
        break;
      }
    }
    idle = now_done == done ? idle + 1 : 0;
    done = now_done;
  }
  naps_.store(false, std::memory_order_seq_cst);
  if (!has_slot && !engine_.ready.is_empty() && slots.take()) {  // a push that saw the nap has called nobody
    slots.begin_spinning();
    has_slot = true;
  }
  if (has_slot) vain_calls_ = 0;
  return has_slot;
}

void Workers::drain() {
  if (!begin_work()) return;
  t_slot_of = this;
  thread_context() = ThreadContext{.engine = engine_.self.ref()};
  // With one slot no thread needs to know whether its holder looks for work.
  const bool count_spinning = slots.count() > 1;
  if (!count_spinning) slots.end_spinning();  // as below: before the last look at the queue
  bool is_spinning = count_spinning;          // wake() has counted it
  // A worker that just ran parallel_for pieces will likely be needed again; keep it spinning instead of waking another.
  bool will_be_asked = false;
  for (;;) {
    if (OpNode* op = engine_.ready.pop()) {
      if (is_spinning) {
        is_spinning = false;
        // no other thread looks for work now: if there is more, start another worker
        if (slots.end_spinning() && !engine_.ready.is_empty()) wake();
      }
      end_helping();
      run_chain(op);
      will_be_asked = std::exchange(t_has_shared, false);
      continue;
    }
    bool look = true;
    if (count_spinning && !is_spinning) {
      is_spinning = true;
      look = slots.begin_spinning() || will_be_asked;  // one spinning worker is enough
    }
    end_helping();
    const std::chrono::microseconds spin = engine_.options.spin;
    if (look && wait_for_work(will_be_asked ? 10 * spin : spin)) continue;
    if (is_spinning) slots.end_spinning();
    is_spinning = false;
    slots.give();
    // work may have arrived between the last look and giving up the slot
    if (engine_.ready.is_empty() || !slots.take()) break;
  }
  t_slot_of = nullptr;
}

bool Workers::wait_for_work(std::chrono::microseconds time) const noexcept {
  const auto until = Clock::now() + time;
  for (int looks = 0; engine_.ready.is_empty(); ++looks) {
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

void Workers::run_chain(OpNode* op, FunctionRef<bool()>* stop) {
  ReadyOps& ready = engine_.ready;
  OpRunner& runner = engine_.runner;
  if (ready.chosen()) [[unlikely]] {
    if (OpNode* next = runner.execute(*op)) ready.add(*next);  // one choice among the others
    return;
  }
  if (is_serial()) {
    // runs everything that the chain makes ready before the push returns
    while (op) {
      while (op) op = runner.execute(*op);
      op = ready.pop();
    }
    return;
  }
  while (op) {
    SerialQueue* const serial_queue = ready.serial_queue_of(*op);
    op = runner.execute(*op);
    if (OpNode* next = serial_queue ? serial_queue->leave() : nullptr) {
      if (op) put(*op);
      op = next;
    }
    if (op && stop && (*stop)()) {
      put(*op);
      return;
    }
    if (op && ready.uses_priorities()) {
      // an inline successor yields to a higher class
      if (OpNode* higher = ready.pop_before(op->priority)) put(*std::exchange(op, higher));
    }
  }
}

bool Workers::help(FunctionRef<bool()> done, SpinningWaiter* waiter) {
  if (engine_.ready.is_empty()) return false;  // without taking a slot: parallel_for counts free ones
  const bool holds = caller_has_slot();
  if (!holds && !slots.take() && !slots.take_over()) return false;
  if (holds) nested_.fetch_add(1, std::memory_order_seq_cst);
  const Workers* const saved = std::exchange(t_slot_of, this);
  const ThreadContext saved_context = std::exchange(thread_context(), ThreadContext{.engine = engine_.self.ref()});
  const bool was_helping = std::exchange(t_is_helping, false);  // the piece that waits stays counted
  bool ran = false;
  while (!done()) {
    OpNode* op = engine_.ready.pop();
    if (!op) break;
    if (!std::exchange(ran, true) && waiter) waiter->end();
    end_helping();
    run_chain(op, &done);
  }
  thread_context() = saved_context;
  t_slot_of = saved;
  if (holds) {
    nested_.fetch_sub(1, std::memory_order_seq_cst);
  } else {
    slots.give();
    if (!engine_.ready.is_empty()) wake();
  }
  end_helping();
  t_is_helping = was_helping;
  if (ran && waiter) waiter->begin();
  return ran;
}

void Workers::run_serial(OpNode& op) noexcept {
  const bool holds = caller_has_slot();
  if (!holds) slots.take_beyond_count();
  const Workers* const saved = std::exchange(t_slot_of, this);
  const ThreadContext saved_context = std::exchange(thread_context(), ThreadContext{.engine = engine_.self.ref()});
  run_chain(&op);
  thread_context() = saved_context;
  t_slot_of = saved;
  if (!holds) slots.give();
}

void Workers::proceed(OpNode& op) noexcept {
  if (is_serial() && !caller_has_slot()) {
    run_serial(op);
  } else {
    make_ready(op);  // in serial mode the chain that this thread runs continues with it
  }
}

void Workers::serve() noexcept {
  if (!engine_.ready.chosen()) return;
  help([] { return false; });
  if (!engine_.ready.is_empty()) serve_later();  // another thread has the slot, and may return with work undone
}

void Workers::serve_later() noexcept {
  if (serves_later_.exchange(true)) return;
  for (;;) {
    try {
      return engine_.io.call_after(std::chrono::milliseconds(1), [this] {
        serves_later_ = false;
        serve();
      });
    } catch (const std::bad_alloc&) {  // runs the work here, until it is done or there is memory
    }
    help([] { return false; });
    if (engine_.ready.is_empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  serves_later_ = false;
}

void Workers::run_burst() {
  if (t_running) return;  // pushed by an operation
  size_t left = engine_.ready.chosen()->burst();
  if (left > 0) help([&] { return left-- == 0; });
}

// Waking a thread takes some 10 us. Where the workers leave it a core, it looks long enough for most operations.
std::chrono::microseconds Workers::patience() const noexcept {
  const bool has_core = slots.count() + slots.spinning_waiters() <= cores_;
  return has_core ? 10 * engine_.options.spin : engine_.options.spin;
}

// Work and a free slot that no worker takes: the worker may be waiting for this thread's core. With several waiting
// threads other ones have the cores.
void Workers::back_off(int looks) const noexcept {
  // On one core what this thread waits for can only be done by a thread that gets it.
  if (cores_ == 1 || (looks == 64 && !engine_.ready.is_empty() && slots.spinning_waiters() <= 1)) {
    std::this_thread::yield();
  } else {
    cpu_pause();
  }
}

SpinningWaiter::SpinningWaiter(Engine::Impl& engine) : engine_(engine.workers.caller_has_slot() ? nullptr : &engine) {
  begin();
}

void SpinningWaiter::begin() noexcept {
  if (engine_) engine_->workers.slots.begin_spinning_wait();
}

void SpinningWaiter::end() noexcept {
  // no other thread looks for work now: if there is some, start a worker
  if (engine_ && engine_->workers.slots.end_spinning_wait() && !engine_->ready.is_empty()) engine_->workers.wake();
}

}  // namespace kaon::engine
