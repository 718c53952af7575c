#include "kaon/engine/task.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "kaon/engine/base/coroutine_queue.h"
#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/block_pool.h"
#include "kaon/engine/scheduler/engine_impl.h"
#include "kaon/engine/threads/turn.h"

namespace kaon::engine {

SuspensionPoint::Start SuspensionPoint::choose_start(bool waits_for_room, bool yields) {
  const Engine& engine = Engine::current();
  if (!waits_for_room && engine.impl()->backpressure.is_over_limit(engine.active_budget()) && engine.is_over_budget()) {
    return Start::with_room;
  }
  return !yields && t_turn.is_over() ? Start::after_others : Start::at_once;
}

void SuspensionPoint::post_later(Root later, Executor& executor) const {
  try {
    if (start_ == Start::with_room) {
      Engine::current().on_room(later.handle, executor);
    } else {
      executor.post(later.handle);
    }
  } catch (...) {
    later.handle.destroy();
    throw;
  }
}

// The coroutines that are left when the awaited one is done (of when_any) continue on the engine's io pool.
class RunLoop : public Executor, public std::enable_shared_from_this<RunLoop> {
 public:
  void post(std::coroutine_handle<> work) override;
  std::shared_ptr<void> hold() override { return shared_from_this(); }
  void finish();
  void run(Engine* of_operation);  // the engine of the operation that this thread runs; null outside of one

 private:
  std::coroutine_handle<> next(Engine* of_operation);  // a null handle: finish() was called

  Engine& engine_ = Engine::current();
  std::mutex mutex_;
  std::condition_variable wake_;
  CoroutineQueue queue_;
  std::atomic<bool> posted_{false};
  bool finished_ = false;
  bool is_over_ = false;  // run() has returned
};

std::shared_ptr<RunLoop> make_run_loop() { return std::allocate_shared<RunLoop>(PoolAllocator<RunLoop>()); }
void finish(RunLoop& loop) { loop.finish(); }

void RunLoop::post(std::coroutine_handle<> work) {
  std::unique_lock lock(mutex_);
  if (is_over_) {
    lock.unlock();
    post_surely(engine_.io_executor(), work);
    return;
  }
  queue_.push(work);
  posted_.store(true, std::memory_order_release);
  wake_.notify_one();
}

void RunLoop::finish() {
  std::lock_guard lock(mutex_);
  finished_ = true;
  posted_.store(true, std::memory_order_release);
  wake_.notify_one();
}

void RunLoop::run(Engine* of_operation) {
  while (std::coroutine_handle<> work = next(of_operation)) resume_coroutine(work);
}

std::coroutine_handle<> RunLoop::next(Engine* of_operation) {
  auto is_posted = [&] { return finished_ || !queue_.is_empty(); };
  std::unique_lock lock(mutex_);
  while (!is_posted()) {
    posted_.store(false, std::memory_order_relaxed);
    lock.unlock();
    // helps the engine for a while, since the task may wait for that; then sleeps
    auto begun = std::chrono::steady_clock::now();
    while (!posted_.load(std::memory_order_acquire)) {
      if (engine_.help_once()) {
        begun = std::chrono::steady_clock::now();
      } else if (std::chrono::steady_clock::now() >= begun + engine_.impl()->workers.patience()) {
        break;
      } else {
        cpu_pause();
      }
    }
    lock.lock();
    if (!of_operation && engine_.has_workers()) {
      wake_.wait(lock, is_posted);
    } else if (!wake_.wait_for(lock, std::chrono::milliseconds(1), is_posted) && of_operation) {
      // the operation that this thread waits for may become ready with no other thread to run it, or never
      lock.unlock();
      of_operation->impl()->deadlocks.fail_if_stuck();
      lock.lock();
    }
  }
  if (finished_) {
    is_over_ = true;
    lock.unlock();  // post() adds nothing to the queue any more
    // to the io pool: a coroutine that yields would be posted here again and again
    while (const std::coroutine_handle<> work = queue_.pop()) post_surely(engine_.io_executor(), work);
    return {};
  }
  return queue_.pop();
}

void run_until_done(Root root, RunLoop& loop) {
  root.handle.promise().set_executor(&loop);
  ThreadContext saved = thread_context();
  ThreadContext& context = thread_context();
  context.in_task = true;
  if (!context.op_engine && t_running) {
    context.op_engine = &t_running->engine->self;
    context.op = t_running->op;
  }
  Engine* of_operation = context.op_engine;
  {
    const TurnScope turn;
    root.handle.resume();
  }
  thread_context() = saved;
  loop.run(of_operation);
}

namespace {

struct Hook : WithMutex {
  std::shared_ptr<const std::function<void(std::exception_ptr)>> call;  // shared: calling it copies nothing
};
Hook& unobserved_hook() { return ProcessWide<Hook>::get(); }

void report_unobserved(std::exception_ptr error) {
  std::shared_ptr<const std::function<void(std::exception_ptr)>> hook;
  {
    std::lock_guard lock(unobserved_hook().mutex);
    hook = unobserved_hook().call;
  }
  if (hook) return (*hook)(error);
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "kaon: a spawned task failed: %s\n", e.what());
  } catch (...) {
    std::fprintf(stderr, "kaon: a spawned task failed with an unknown exception\n");
  }
}

// Parameters are destroyed in reverse order: what holds the executor last.
Root run_detached(ScopeHold, Task<void> task, ThreadContext context) {
  thread_context() = context;  // for this coroutine; the executor restores its thread's own afterwards
  std::exception_ptr error;
  try {
    co_await task;
  } catch (...) {
    error = std::current_exception();
  }
  if (error) report_unobserved(error);
}

}  // namespace

}  // namespace kaon::engine

namespace kaon {

using namespace engine;

void set_unobserved_error_hook(std::function<void(std::exception_ptr)> hook) {
  std::shared_ptr<const std::function<void(std::exception_ptr)>> call;
  if (hook) call = std::make_shared<const std::function<void(std::exception_ptr)>>(std::move(hook));
  std::lock_guard lock(engine::unobserved_hook().mutex);
  std::swap(engine::unobserved_hook().call, call);  // the old one goes after the lock
}

void spawn(Task<void> task, Executor& executor) {
  const ThreadContext& here = thread_context();
  ThreadContext context{.engine = here.engine, .device = here.device, .in_task = true, .budget = here.budget};
  engine::Root root = engine::run_detached(engine::ScopeHold(executor), std::move(task), context);
  root.handle.promise().set_executor(&executor);
  try {
    executor.post(root.handle);
  } catch (...) {
    root.handle.destroy();
    throw;
  }
}

}  // namespace kaon

namespace kaon::engine {

ScopeHold::ScopeHold(Executor& executor) : executor_(executor.hold()), budget_(thread_context().budget) {}
ScopeHold::ScopeHold(ScopeHold&&) noexcept = default;
ScopeHold::~ScopeHold() = default;

namespace {
Root run_op_body(Task<void> task, OpNode& op, Engine& engine) {
  const uint64_t begin = engine.profiler().is_on() ? Profiler::now() : 0;
  std::exception_ptr error;
  try {
    co_await task;
  } catch (...) {
    error = std::current_exception();
  }
  { Task<void> ended = std::move(task); }  // its arrays are released before a wait for the operation returns
  if (begin) {
    engine.profiler().record(
        {op.label.name, "operator", begin, Profiler::now(), op.label.block_path, op.label.site, op.sequence});
  }
  engine.complete(op, error);
}
}  // namespace

void begin_op(OpNode& op, Engine& engine, FunctionRef<Task<void>()> make) {
  std::exception_ptr failure;
  try {
    Task<void> task = make();
    if (engine.has_workers()) {
      Root root = run_op_body(std::move(task), op, engine);
      root.handle.promise().set_executor(&engine.io_executor());
      ThreadContext saved = std::exchange(
          thread_context(), ThreadContext{.engine = engine.ref(), .in_task = true, .op_engine = &engine, .op = &op});
      const TurnScope turn;
      root.handle.resume();
      thread_context() = saved;
      return;
    }
    sync_wait(std::move(task));
  } catch (...) {
    failure = std::current_exception();
  }
  engine.complete(op, failure);
}

}  // namespace kaon::engine

namespace kaon {

int run_main(Task<void> task) {
  try {
    sync_wait(std::move(task));
    Engine::current().wait_all();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
  } catch (...) {
    std::fprintf(stderr, "error: an exception that is not a std::exception\n");
  }
  return 1;
}

}  // namespace kaon
