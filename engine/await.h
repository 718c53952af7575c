// Awaiters: how a coroutine waits for an array, for the engine, for time.
#pragma once

#include <chrono>
#include <concepts>
#include <coroutine>
#include <optional>
#include <stop_token>
#include <utility>

#include "kaon/engine/engine.h"

namespace kaon {

// A promise that says where its coroutine resumes. Kaon's Task and AsyncGenerator have one; in Asio's own
// coroutines use the completion-token forms of kaon/asio.h.
template <class P>
concept HasExecutor = requires(P& promise) {
  { promise.executor() } -> std::convertible_to<Executor*>;
};

// co_await array: resumes on the coroutine's executor when the writes pushed before are done; gives the array. Throws
// the array's failure, DeviceError when its GPU has failed, Cancelled when the scope of the coroutine is stopped first,
// WouldDeadlock as Engine::wait does. The awaiter is itself the node in the var's queue, so nothing is allocated; it
// must not be destroyed while the coroutine is suspended on it.
template <class A>
class ReadyAwaiter : private WaitNode {
 public:
  explicit ReadyAwaiter(A array) : WaitNode(wait_type, array.var(), AccessMode::read), array_(std::move(array)) {}

  bool await_ready() const noexcept { return false; }
  template <HasExecutor P>
  bool await_suspend(std::coroutine_handle<P> caller) {
    caller_ = caller;
    executor_ = caller.promise().executor();
    Engine& engine = array_.engine();
    // before it is queued: after that the coroutine may resume on another thread at any moment
    if (const MemoryBudget* budget = engine.active_budget(); budget && budget->stop_token().stop_possible()) {
      stop_.emplace(budget->stop_token(), Abandon{this});
    }
    return engine.enqueue_waiter(*this, executor_) || (!error && resumes_later());
  }
  A await_resume() {
    stop_.reset();
    if (error) throw_op_error(*error);
    if (device_failure_) std::rethrow_exception(device_failure_);
    if (abandoned) throw Cancelled("[co_await] the scope was stopped before the array was written");
    return std::move(array_);
  }

 private:
  struct Abandon {
    ReadyAwaiter* self;
    void operator()() const {
      if (self->array_.engine().abandon_waiter(*self)) post_surely(*self->executor_, self->caller_);
    }
  };
  static constexpr OpType wait_type{
      .signal =
          [](OpBase& base) noexcept {
            auto& self = static_cast<ReadyAwaiter&>(static_cast<WaitNode&>(base));
            if (self.error || !self.resumes_later()) post_surely(*self.executor_, self.caller_);
          },
  };
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
    if (const MemoryBudget* budget = engine_.active_budget(); budget && budget->is_stopped()) {
      throw Cancelled("[admit] the scope was stopped");
    }
  }

 private:
  Engine& engine_;
};

// co_await yield(): puts the coroutine behind the work that waits on its executor. On an engine without workers it
// first runs one ready operation.
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
inline YieldAwaiter yield() { return {}; }

// co_await sleep_for(20ms): resumes on the coroutine's executor after at least that long; at once where the delay is
// not positive. A stop request does not shorten it.
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
inline SleepAwaiter sleep_for(std::chrono::nanoseconds delay) { return SleepAwaiter(delay); }

}  // namespace kaon
