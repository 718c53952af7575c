#include "kaon/engine/scheduler/op_runner.h"

#include <thread>
#include <utility>

#include "kaon/engine/operation/shared_read_lease.h"
#include "kaon/engine/profiler.h"
#include "kaon/engine/scheduler/engine_impl.h"
#include "kaon/engine/scheduler/op_run_context.h"

namespace kaon::engine {
namespace {

// While it exists, this thread is inside an operation.
struct InOperation {
  explicit InOperation(Engine::Impl& engine, const OpNode& op) : frame{&engine, &op, t_running} { t_running = &frame; }
  ~InOperation() { t_running = frame.outer; }
  InOperation(const InOperation&) = delete;
  InOperation& operator=(const InOperation&) = delete;
  Running frame;
};

bool is_dropped(const OpNode& op) noexcept { return op.budget && op.budget->is_stopped(); }

}  // namespace

OpNode* OpRunner::execute(OpNode& op) noexcept {
  bool heals = false;
  IntrusivePtr<const OpError> error;
  for (int i = 0; i < op.num_deps; ++i) {
    if (op.deps[i].var()->error()) [[unlikely]] {
      error = FailureLog::inherit(op, heals);
      break;
    }
  }
  if (is_dropped(op) && !error) [[unlikely]]
    error = engine_.failures.record_dropped(op);
  if (error) [[unlikely]]
    return settle(op, error, op.transactional, heals);

  if (op.type->ends_later) {
    const InOperation inside(engine_, op);
    OpRunContext context(engine_.self);
    op.type->run(op, context);  // the op may have ended and be destroyed
    ending_later_.fetch_add(1, std::memory_order_seq_cst);
    return nullptr;
  }
  Profiler& profiler = engine_.profiler;
  const uint64_t begin = profiler.is_on() ? Profiler::now() : 0;
  bool spares_updates = false;
  {
    const InOperation inside(engine_, op);
    OpRunContext context(engine_.self);
    try {
      op.type->run(op, context);
    } catch (...) {
      error = engine_.failures.record(op, std::current_exception(), is_dropped(op));
      spares_updates = op.transactional && context.updates_are_whole;
      engine_.counts.fail();
    }
  }
  if (begin) {
    profiler.record({op.label.name, op.counted ? "operator" : "piece", begin, Profiler::now(), op.label.block_path,
                     op.label.site, op.counted ? op.sequence : 0});
  }
  if (error || heals) [[unlikely]]
    return settle(op, error, spares_updates, heals);
  return finish(op);
}

OpNode* OpRunner::settle(OpNode& op, const IntrusivePtr<const OpError>& error, bool spares_updates,
                         bool heals) noexcept {
  if (error || heals) {
    for (int i = 0; i < op.num_deps; ++i) {
      Dep& d = op.deps[i];
      if (d.is_write() && !(spares_updates && d.mode() == AccessMode::update)) d.var()->set_error(error.get());
    }
  }
  return finish(op);
}

// The calls of complete() that this thread is in. Until they are left the engine cannot end.
struct OpRunner::Completer {
  explicit Completer(OpRunner& runner) : runner(runner), outer(std::exchange(innermost, this)) {
    runner.completers_.fetch_add(1, std::memory_order_relaxed);
  }
  ~Completer() {
    innermost = outer;
    runner.completers_.fetch_sub(1, std::memory_order_release);  // after which the engine may end
  }
  OpRunner& runner;
  Completer* const outer;
  static thread_local Completer* innermost;
};
thread_local OpRunner::Completer* OpRunner::Completer::innermost = nullptr;

void OpRunner::wait_for_completers() const noexcept {
  int own = 0;
  for (const Completer* c = Completer::innermost; c; c = c->outer) own += &c->runner == this;
  while (completers_.load(std::memory_order_acquire) > own) std::this_thread::yield();
}

void OpRunner::complete(OpNode& op, const std::exception_ptr& failure) noexcept {
  const Completer completer(*this);  // the operation's end may be the last thing that the program waits for
  IntrusivePtr<const OpError> error;
  if (failure) {
    error = engine_.failures.record(op, failure, is_dropped(op));
    engine_.counts.fail();
  }
  ending_later_.fetch_sub(1, std::memory_order_seq_cst);  // before settle(), after which nothing may be in flight
  if (OpNode* next = settle(op, error, false, true)) engine_.workers.proceed(*next);
}

void OpRunner::granted(OpBase& op, OpNode*& next, uint64_t by) noexcept {
  if (op.pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (op.is_waiter()) {
    auto& waiter = static_cast<WaitNode&>(op);
    waiter.ended_by = by;
    complete_waiter(waiter, next);
    return;
  }
  auto& node = static_cast<OpNode&>(op);
  if (engine_.ready.serial_queue_of(node)) {
    engine_.workers.make_ready(node);
  } else if (!next) {
    next = &node;
  } else if (node.priority < next->priority) {
    engine_.workers.make_ready(*std::exchange(next, &node));
  } else {
    engine_.workers.make_ready(node);
  }
}

void OpRunner::complete_waiter(WaitNode& waiter, OpNode*& next) noexcept {
  Dep& d = waiter.dep;
  waiter.error = IntrusivePtr<const OpError>(d.var()->error());
  grant(d.var()->complete(d), next, waiter.ended_by);
  engine_.deadlocks.end_wait(waiter);
  waiter.type->signal(waiter);  // the waiter may be destroyed after this
}

OpNode* OpRunner::finish(OpNode& op) noexcept {
  OpNode* next = nullptr;
  const bool counted = op.counted;
  const uint64_t sequence = op.sequence;
  for (int i = 0; i < op.num_deps; ++i) grant(op.deps[i].var()->complete(op.deps[i]), next, sequence);
  if (op.read_lease) op.read_lease->leave([&](Dep* list) { grant(list, next, sequence); });
  op.type->destroy(op);
  if (op.budget) [[unlikely]]
    op.budget->release();
  op.free_deps();
  delete &op;
  if (!counted) return nullptr;
  const uint64_t ended_before = engine_.counts.end();
  if (engine_.backpressure.has_waiters()) [[unlikely]]
    engine_.backpressure.operation_ended(sequence, ended_before);  // pairs with the increment before parking
  return next;
}

void OpRunner::grant_all(Dep* list) noexcept {
  if (!list) return;
  OpNode* next = nullptr;
  grant(list, next, 0);
  if (!next) return;
  engine_.workers.proceed(*next);
  engine_.workers.serve();
}

}  // namespace kaon::engine
