#include "kaon/engine/task.h"

#include <chrono>
#include <cstdio>

#include "kaon/engine/trace.h"

namespace kaon {
namespace detail {

void RunLoop::post(std::coroutine_handle<> work) {
  std::lock_guard lock(mutex_);
  queue_.push_back(work);
  posted_.store(true, std::memory_order_release);
  wake_.notify_one();
}

void RunLoop::finish() {
  std::lock_guard lock(mutex_);
  finished_ = true;
  posted_.store(true, std::memory_order_release);
  wake_.notify_one();
}

void RunLoop::run() {
  Engine& engine = Engine::current();
  for (;;) {
    std::coroutine_handle<> work;
    {
      std::unique_lock lock(mutex_);
      if (queue_.empty()) {
        if (finished_) return;
        posted_.store(false, std::memory_order_relaxed);
        lock.unlock();
        // a while of helping the engine, which may be what we wait for; then sleep
        auto until = std::chrono::steady_clock::now() + engine.options().spin;
        while (!posted_.load(std::memory_order_acquire)) {
          if (engine.help_once()) {
            until = std::chrono::steady_clock::now() + engine.options().spin;
          } else if (std::chrono::steady_clock::now() >= until) {
            break;
          } else {
            cpu_pause();
          }
        }
        lock.lock();
        auto is_posted = [&] { return finished_ || !queue_.empty(); };
        if (engine.on_worker() || !engine.has_workers()) {
          // what this thread waits for may become ready with nobody else to run it
          if (!wake_.wait_for(lock, std::chrono::milliseconds(1), is_posted)) continue;
        } else {
          wake_.wait(lock, is_posted);
        }
        if (queue_.empty()) return;
      }
      work = queue_.front();
      queue_.pop_front();
    }
    resume_coroutine(work);
  }
}

namespace {

std::mutex g_hook_mutex;
std::function<void(std::exception_ptr)>& hook_storage() {
  static auto* hook = new std::function<void(std::exception_ptr)>;
  return *hook;
}

void report_unobserved(std::exception_ptr error) {
  std::function<void(std::exception_ptr)> hook;
  {
    std::lock_guard lock(g_hook_mutex);
    hook = hook_storage();
  }
  if (hook) return hook(error);
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "kaon: a spawned task failed: %s\n", e.what());
  } catch (...) {
    std::fprintf(stderr, "kaon: a spawned task failed with an unknown exception\n");
  }
}

Root run_detached(Task<void> task, ThreadContext context, IntrusivePtr<Limits>) {
  thread_context() = context;  // of this coroutine: the executor gives its thread the old one back
  std::exception_ptr error;
  try {
    co_await task;
  } catch (...) {
    error = std::current_exception();
  }
  if (error) report_unobserved(error);
}

}  // namespace
}  // namespace detail

void set_unobserved_error_hook(std::function<void(std::exception_ptr)> hook) {
  std::lock_guard lock(detail::g_hook_mutex);
  detail::hook_storage() = std::move(hook);
}

void spawn(Task<void> task, Executor& executor) {
  const ThreadContext& here = thread_context();
  ThreadContext context{.engine = here.engine, .device = here.device, .in_task = true, .limits = here.limits};
  detail::Root root = detail::run_detached(std::move(task), context, IntrusivePtr<Limits>(here.limits));
  root.handle.promise().set_executor(&executor);
  executor.post(root.handle);
}

namespace detail {
namespace {
Root run_op_body(Task<void> task, OpNode& op, Engine& engine) {
  const uint64_t begin = engine.profiler().is_on() ? Profiler::now() : 0;
  std::exception_ptr error;
  try {
    co_await task;
  } catch (...) {
    error = std::current_exception();
  }
  { Task<void> ended = std::move(task); }  // its arrays go before anybody learns that it has ended
  if (begin) {
    engine.profiler().record(
        {op.label.name, "operator", begin, Profiler::now(), op.label.scope, op.label.site, op.sequence});
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
      ThreadContext saved =
          std::exchange(thread_context(), ThreadContext{.engine = &engine, .in_task = true, .op = &op});
      root.handle.resume();
      thread_context() = saved;
      return;
    }
    ThreadContext saved = std::exchange(thread_context(), ThreadContext{.engine = &engine, .in_task = true, .op = &op});
    try {
      sync_wait(std::move(task));
    } catch (...) {
      failure = std::current_exception();
    }
    thread_context() = saved;
  } catch (...) {
    failure = std::current_exception();
  }
  engine.complete(op, failure);
}
}  // namespace detail

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
