// Task: a lazy coroutine; sync_wait and spawn start one, call_in_scope gives it modes.
#pragma once

#include <atomic>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "kaon/engine/api.h"
#include "kaon/engine/await.h"

namespace KAON_API kaon {

template <class T>
class Task;

namespace engine {

template <class T>
decltype(auto) get_awaiter(T&& awaitable) {
  if constexpr (requires { std::forward<T>(awaitable).operator co_await(); }) {
    return std::forward<T>(awaitable).operator co_await();
  } else {
    return std::forward<T>(awaitable);
  }
}

template <class Awaiter>
class ContextAwaiter;

// Synchronizes the two sides of a co_await on a Task: the caller that suspends and the callee that ends. The second one
// to arrive continues. So a callee that ends at once costs no stack, without relying on tail calls (g++ 12 makes none
// at -O0 and under sanitizers).
class PromiseBase : public Pooled {
 public:
  Executor* executor() const noexcept { return executor_; }
  void set_executor(Executor* e) noexcept { executor_ = e; }
  void set_continuation(std::coroutine_handle<> c) noexcept { continuation_ = c; }

  // For the caller, after it resumed the callee: true when the callee has not ended yet.
  bool suspend_caller() noexcept {
    return state_.load(std::memory_order_acquire) != 2 && state_.exchange(1, std::memory_order_acq_rel) != 2;
  }

  std::suspend_always initial_suspend() const noexcept { return {}; }
  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> self) noexcept {
      PromiseBase& p = self.promise();
      std::coroutine_handle<> next = p.continuation_;
      if (p.state_.exchange(2, std::memory_order_acq_rel) == 1) return next;
      return std::noop_coroutine();  // the caller is still running and continues by itself
    }
    void await_resume() const noexcept {}
  };
  FinalAwaiter final_suspend() const noexcept { return {}; }

  template <class T>
  auto await_transform(T&& awaitable) {
    return ContextAwaiter<decltype(get_awaiter(std::forward<T>(awaitable)))>(std::forward<T>(awaitable));
  }
  void unhandled_exception() noexcept { error_ = std::current_exception(); }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  Executor* executor_ = nullptr;
  std::coroutine_handle<> continuation_;
  std::atomic<int> state_{0};
  std::exception_ptr error_;
};

// The outermost coroutine of a chain, which is not awaited. Frees itself at its end.
class Root {
 public:
  struct promise_type : PromiseBase {
    Root get_return_object() noexcept { return Root(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }  // roots catch everything themselves
  };
  explicit Root(std::coroutine_handle<promise_type> h) : handle(h) {}
  std::coroutine_handle<promise_type> handle;
};

// What every co_await in Kaon's coroutines does besides its own: keeps recording, training mode, engine, device and
// block path across the suspension, makes a coroutine that pushed beyond the engine's limit wait for room first, and
// makes one whose turn is over yield.
class SuspensionPoint {
 protected:
  enum class Start : char { at_once, with_room, after_others };

  // admit() waits for room itself, once; yield() yields itself
  static Start choose_start(bool waits_for_room, bool yields);
  void post_later(Root later, Executor& executor) const;  // throws what the executor's post() throws
  void restore() const {
    if (context_) thread_context() = *context_;
    if (error_) std::rethrow_exception(error_);
  }

  std::optional<ThreadContext> context_;  // once it has suspended
  std::exception_ptr error_;              // thrown in begin_later()
  Start start_ = Start::at_once;
};

// Wraps every co_await in Kaon's coroutines.
template <class Awaiter>
class ContextAwaiter : private SuspensionPoint {
 public:
  template <class T>
  explicit ContextAwaiter(T&& awaitable) : inner_(get_awaiter(std::forward<T>(awaitable))) {}

  bool await_ready() {
    start_ = choose_start(std::is_same_v<Awaiter, AdmitAwaiter>, std::is_same_v<Awaiter, YieldAwaiter>);
    return start_ == Start::at_once && inner_.await_ready();
  }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> caller) {
    context_.emplace(thread_context());
    if (start_ == Start::at_once) return begin(caller);
    post_later(begin_later(*this, caller), *caller.promise().executor());
    return true;
  }
  decltype(auto) await_resume() {
    restore();
    return inner_.await_resume();
  }

 private:
  template <class P>
  bool begin(std::coroutine_handle<P> caller) {
    if constexpr (std::is_void_v<decltype(inner_.await_suspend(caller))>) {
      inner_.await_suspend(caller);
      return true;
    } else {
      return inner_.await_suspend(caller);
    }
  }
  // Runs on the caller's executor: once there is room, or after the work that was queued there.
  template <class P>
  static Root begin_later(ContextAwaiter& self, std::coroutine_handle<P> caller) {
    thread_context() = *self.context_;
    bool waits = false;
    try {
      waits = !self.inner_.await_ready() && self.begin(caller);
    } catch (...) {
      self.error_ = std::current_exception();
    }
    if (!waits) caller.resume();  // else `self` may be gone
    co_return;
  }

  Awaiter inner_;
};

template <class T>
class TaskPromise : public PromiseBase {
 public:
  Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T result() {
    rethrow();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> : public PromiseBase {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void result() const { rethrow(); }
};

}  // namespace engine

// A coroutine that starts when it is awaited and resumes on its awaiter's executor; co_await throws what its body
// throws. It may be awaited once. Frames are recycled. Pushing inside one never blocks; beyond the engine's limits the
// next co_await waits for room. Thread safety: unsafe. Must not be destroyed while it is suspended.
template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = engine::TaskPromise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  explicit Task(Handle h) noexcept : handle_(h) {}
  Task(Task&& o) noexcept : handle_(std::exchange(o.handle_, {})) {}
  Task& operator=(Task&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  class Awaiter {
   public:
    explicit Awaiter(Handle h) noexcept : handle_(h) {}
    bool await_ready() const noexcept { return false; }
    template <engine::HasExecutor P>
    bool await_suspend(std::coroutine_handle<P> caller) {
      handle_.promise().set_executor(caller.promise().executor());
      handle_.promise().set_continuation(caller);
      handle_.resume();
      return handle_.promise().suspend_caller();
    }
    T await_resume() { return handle_.promise().result(); }

   private:
    Handle handle_;
  };
  Awaiter operator co_await() && noexcept { return Awaiter(handle_); }
  Awaiter operator co_await() & noexcept { return Awaiter(handle_); }

 private:
  Handle handle_;
};

namespace engine {
template <class T>
Task<T> TaskPromise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

// The executor of a thread that runs coroutines until one of them is done, and helps the engine between them.
class RunLoop;
KAON_API std::shared_ptr<RunLoop> make_run_loop();
KAON_API void run_until_done(Root root, RunLoop& loop);
KAON_API void finish(RunLoop& loop);  // called by the coroutine that the thread waits for

template <class T>
Root run_root(Task<T>& task, std::optional<T>& value, std::exception_ptr& error, RunLoop& loop) {
  try {
    value.emplace(co_await task);
  } catch (...) {
    error = std::current_exception();
  }
  finish(loop);
}
inline Root run_root(Task<void>& task, std::exception_ptr& error, RunLoop& loop) {
  try {
    co_await task;
  } catch (...) {
    error = std::current_exception();
  }
  finish(loop);
}
}  // namespace engine

// Runs the task on this thread until it ends; blocks, helping the engine. Throws what the task throws. Thread safety:
// any thread, also inside operations.
template <class T>
T sync_wait(Task<T> task) {
  const std::shared_ptr<engine::RunLoop> loop = engine::make_run_loop();
  std::exception_ptr error;
  if constexpr (std::is_void_v<T>) {
    engine::run_until_done(engine::run_root(task, error, *loop), *loop);
    if (error) std::rethrow_exception(error);
  } else {
    std::optional<T> value;
    engine::run_until_done(engine::run_root(task, value, error, *loop), *loop);
    if (error) std::rethrow_exception(error);
    return std::move(*value);
  }
}

namespace engine {
// What a coroutine keeps alive that may outlive the loop and the scope in which it was started.
class ScopeHold {
 public:
  explicit ScopeHold(Executor& executor);
  ScopeHold(ScopeHold&&) noexcept;
  ~ScopeHold();

 private:
  std::shared_ptr<void> executor_;
  IntrusivePtr<MemoryBudget> budget_;
};

KAON_API void begin_op(OpNode& op, Engine& engine, FunctionRef<Task<void>()> make);

template <class F>
struct TaskBody {
  F make;
  Engine* engine;
};
template <class F>
inline constexpr OpType task_type{
    .run =
        [](OpNode& op, RunContext&) {
          TaskBody<F>& body = OpBody<TaskBody<F>>::get(op);
          begin_op(op, *body.engine, body.make);
        },
    .destroy = OpBody<TaskBody<F>>::destroy,
    .ends_later = true,
};
}  // namespace engine

// Pushes an operation whose body is a coroutine: `make()` returns a Task<void>, called once all accesses are granted.
// The operation ends when the Task does; while the Task waits for a timer, a file or another array it holds no worker.
// It begins on a worker and resumes on the io pool. `make` lives as long as the operation, so the Task may refer to its
// captures. An engine without workers runs the Task to its end at once. Awaiting an array that the operation itself
// writes or that can only be written after it has ended, and awaiting the engine, throws WouldDeadlock (in a task of
// when_any the wait ends with the operation). Throws as Engine::push. Thread safety: any thread.
template <class F>
void push_task(Engine& engine, std::span<const Access> accesses, F&& make, const PushOptions& options = {}) {
  using Make = std::decay_t<F>;
  engine.push_as(engine::task_type<Make>, accesses, engine::TaskBody<Make>{std::forward<F>(make), &engine}, options);
}
template <class F>
void push_task(Engine& engine, std::initializer_list<Access> accesses, F&& make, const PushOptions& options = {}) {
  push_task(engine, std::span<const Access>(accesses.begin(), accesses.size()), std::forward<F>(make), options);
}

// main() in one line: runs the task, then waits for everything pushed. Blocks. Returns 0; prints a failure and
// returns 1.
KAON_API int run_main(Task<void> task);

// Sets the function that gets the exceptions of spawned tasks; the default prints them to stderr.
// Thread safety: any thread.
KAON_API void set_unobserved_error_hook(std::function<void(std::exception_ptr)> hook);

// Starts the task on an executor, which must outlive it and is kept busy (Executor::hold) until it ends. The engine,
// the limits and the device of this thread are current in it; recording and training are off. Its failure goes to the
// hook. Throws what the executor's post() throws. Does not block. Thread safety: any thread.
KAON_API void spawn(Task<void> task, Executor& executor);

namespace engine {

template <class T>
struct IsTask : std::false_type {};
template <class T>
struct IsTask<Task<T>> : std::true_type {};

// g++ 12 destroys the captures of a lambda twice that is made inside a co_await expression.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
template <class F>
inline constexpr bool bears_co_await = std::is_lvalue_reference_v<F> || std::is_trivially_destructible_v<F>;
#else
template <class F>
inline constexpr bool bears_co_await = true;
#endif

template <class Scope, class F, class... Args>
auto run_task_in_scope(F fn, Args... args) -> std::invoke_result_t<F&> {
  Scope scope(args...);
  co_return co_await fn();
}

// Calls fn while a Scope(args...) exists, and returns its result. fn may also return a Task: then the result is a Task
// that keeps a copy of fn, so that its captures last. Scope changes the ThreadContext, which coroutines carry along.
template <class Scope, class F, class... Args>
auto call_in_scope(F&& fn, Args... args) {
  if constexpr (IsTask<std::invoke_result_t<F&>>::value) {
    static_assert(bears_co_await<F>,
                  "g++ 12 destroys the captures of this lambda twice when it is made inside a co_await expression: "
                  "capture by reference, or give the lambda a name first, auto body = [x]() -> Task<NDArray> { ... };");
    return run_task_in_scope<Scope>(std::forward<F>(fn), args...);
  } else {
    Scope scope(args...);
    return fn();
  }
}

}  // namespace engine

}  // namespace kaon
