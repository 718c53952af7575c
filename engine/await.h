// Executors and awaiters: where a coroutine resumes, and how it waits for an array, for the engine, for time.
#pragma once

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "kaon/engine/api.h"
#include "kaon/engine/engine.h"

namespace KAON_API kaon {

// Runs coroutines later, never inside post(). A posted coroutine may run and end on another thread before post()
// returns; the executor must stay valid until then. Thread safety: any thread.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void post(std::coroutine_handle<> work) = 0;
  // While the result exists, more work may be posted: an event loop that ends without work must not end. spawn() keeps
  // it during its Task, when_any during its losers. nullptr: the executor does not end by itself.
  virtual std::shared_ptr<void> hold() { return nullptr; }
};

namespace engine {
// Calls `post`, which throws std::bad_alloc or MemoryError where there is no memory; then it gives the storage's cache
// back, sleeps and calls again, until the call returns.
KAON_API void post_surely(FunctionRef<void()> post) noexcept;
KAON_API void post_surely(Executor& executor, std::coroutine_handle<> work) noexcept;

// Resumes a coroutine and restores the thread's own context afterwards. Every executor runs its work through this.
KAON_API void resume_coroutine(std::coroutine_handle<> work);

// A promise that says where its coroutine resumes. Kaon's Task and AsyncGenerator have one; in Asio's own
// coroutines use the completion-token forms of kaon/asio.h.
template <class P>
concept HasExecutor = requires(P& promise) {
  { promise.executor() } -> std::convertible_to<Executor*>;
};

// One wait for a var, itself the node in the var's queue: it allocates nothing, and stays where it is until signalled()
// has been called or enqueue() has given false. Thread safety: one thread, but for abandon().
class VarWait {
 public:
  VarWait(const VarWait&) = delete;
  VarWait& operator=(const VarWait&) = delete;

  // As Engine::enqueue_waiter and Engine::abandon_waiter.
  bool enqueue(Engine& engine, const Executor* resumes_on = nullptr);
  bool abandon(Engine& engine);
  bool is_abandoned() const noexcept;
  // The failure of the array. Known once the wait is over.
  bool has_failed() const noexcept;
  void throw_failure() const;  // if it has failed

 protected:
  VarWait(Var& var, AccessMode mode) noexcept;
  ~VarWait();
  virtual void signalled() noexcept = 0;  // called once, after the access; the last use of this object

 private:
  struct Node;
  Node& node() noexcept;
  const Node& node() const noexcept;
  alignas(16) std::byte node_[128];
};

// A var in the frame of the coroutine that waits for it.
class OwnVar {
 public:
  OwnVar() noexcept;
  ~OwnVar();
  OwnVar(const OwnVar&) = delete;
  OwnVar& operator=(const OwnVar&) = delete;
  Var& get() noexcept;

 private:
  alignas(8) std::byte var_[32];
};

// co_await array: resumes on the coroutine's executor when the writes pushed before are done; gives the array. Throws
// the array's failure, DeviceError when its GPU has failed, Cancelled when the scope of the coroutine is stopped first,
// WouldDeadlock as Engine::wait does. Nothing is allocated. It must not be destroyed while the coroutine is suspended
// on it.
template <class A>
class ReadyAwaiter : private VarWait {
 public:
  explicit ReadyAwaiter(A array) : VarWait(array.var(), AccessMode::read), array_(std::move(array)) {}

  bool await_ready() const noexcept { return false; }
  template <HasExecutor P>
  bool await_suspend(std::coroutine_handle<P> caller) {
    caller_ = caller;
    executor_ = caller.promise().executor();
    Engine& engine = array_.engine();
    // before it is queued: after that the coroutine may resume on another thread at any moment
    if (std::stop_token stop = engine.stop_token(); stop.stop_possible()) {
      stop_.emplace(std::move(stop), Abandon{this});
    }
    return enqueue(engine, executor_) || (!has_failed() && resumes_later());
  }
  A await_resume() {
    stop_.reset();
    throw_failure();
    if (device_failure_) std::rethrow_exception(device_failure_);
    if (is_abandoned()) throw Cancelled("[co_await] the scope was stopped before the array was written");
    return std::move(array_);
  }

 private:
  struct Abandon {
    ReadyAwaiter* self;
    void operator()() const {
      if (self->abandon(self->array_.engine())) post_surely(*self->executor_, self->caller_);
    }
  };
  void signalled() noexcept override {
    if (has_failed() || !resumes_later()) post_surely(*executor_, caller_);
  }
  // True: launched GPU work that writes the array has not run yet; the coroutine is posted when it has.
  bool resumes_later() {
    if constexpr (requires { array_.when_run([](std::exception_ptr) {}); }) {
      return array_.when_run([this](std::exception_ptr failure) {
        device_failure_ = failure;
        post_surely(*executor_, caller_);
      });
    } else {
      return false;
    }
  }
  A array_;
  std::coroutine_handle<> caller_;
  Executor* executor_ = nullptr;
  std::exception_ptr device_failure_;
  std::optional<std::stop_callback<Abandon>> stop_;
};

// co_await engine.idle(): resumes when nothing is pending. Throws as wait_all() does.
class IdleAwaiter {
 public:
  explicit IdleAwaiter(Engine& engine) : engine_(engine) {}
  bool await_ready() const noexcept { return false; }
  template <HasExecutor P>
  void await_suspend(std::coroutine_handle<P> caller) {
    engine_.on_idle(caller, *caller.promise().executor());
  }
  void await_resume() {
    if (std::exception_ptr e = engine_.take_unreported()) std::rethrow_exception(e);
  }

 private:
  Engine& engine_;
};

// co_await engine.admit(): resumes when the engine and the active budget has room. Throws Cancelled when the scope was
// stopped.
class AdmitAwaiter {
 public:
  explicit AdmitAwaiter(Engine& engine) : engine_(engine) {}
  bool await_ready() const noexcept { return engine_.admits_now(); }
  template <HasExecutor P>
  void await_suspend(std::coroutine_handle<P> caller) {
    engine_.on_room(caller, *caller.promise().executor());
  }
  void await_resume() const {
    if (engine_.stop_token().stop_requested()) throw Cancelled("[admit] the scope was stopped");
  }

 private:
  Engine& engine_;
};

class [[nodiscard]] YieldAwaiter {
 public:
  bool await_ready() const noexcept { return false; }
  template <HasExecutor P>
  void await_suspend(std::coroutine_handle<P> caller) {
    Engine& engine = Engine::current();
    if (!engine.has_workers()) engine.help_once();
    caller.promise().executor()->post(caller);  // after this it may resume on another thread at any moment
  }
  void await_resume() const noexcept {}
};

class SleepAwaiter {
 public:
  explicit SleepAwaiter(std::chrono::nanoseconds delay) : delay_(delay) {}
  bool await_ready() const noexcept { return delay_.count() <= 0; }
  template <HasExecutor P>
  void await_suspend(std::coroutine_handle<P> caller) {
    Engine::current().post_after(delay_, caller, *caller.promise().executor());
  }
  void await_resume() const noexcept {}

 private:
  std::chrono::nanoseconds delay_;
};
}  // namespace engine

// co_await yield(): puts the coroutine behind the work that waits on its executor. On an engine without workers it
// first runs one ready operation.
inline engine::YieldAwaiter yield() { return {}; }

// co_await sleep_for(20ms): resumes on the coroutine's executor after at least that long; at once where the delay is
// not positive. A stop request does not shorten it.
inline engine::SleepAwaiter sleep_for(std::chrono::nanoseconds delay) { return engine::SleepAwaiter(delay); }

}  // namespace kaon
