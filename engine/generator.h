// AsyncGenerator: a coroutine that yields values one at a time and may wait between them.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/engine/task.h"

namespace KAON_API kaon {

// while (auto v = co_await g.next()) ...; next() gives an empty optional at the end, or throws what the body throws.
// The body runs on the executor of the coroutine that awaits next(). Destroying the generator between two values ends
// it. Thread safety: unsafe; one next() at a time.
template <class T>
class AsyncGenerator {
 public:
  class promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  class promise_type : public engine::PromiseBase {
   public:
    AsyncGenerator get_return_object() noexcept { return AsyncGenerator(Handle::from_promise(*this)); }

    // Resumes the caller of next(), whichever thread the body has reached this on.
    struct YieldAwaiter {
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(Handle self) noexcept {
        promise_type& p = self.promise();
        std::coroutine_handle<> caller = p.caller_;
        if (p.turn_.exchange(2, std::memory_order_acq_rel) == 1) return caller;
        return std::noop_coroutine();
      }
      void await_resume() const noexcept {}
    };
    YieldAwaiter yield_value(T value) {
      value_.emplace(std::move(value));
      return {};
    }
    YieldAwaiter final_suspend() noexcept {
      value_.reset();
      return {};
    }
    void return_void() const noexcept {}

   private:
    friend class AsyncGenerator;
    std::optional<T> value_;
    std::coroutine_handle<> caller_;
    std::atomic<int> turn_{0};  // 1: the caller has suspended; 2: the body has yielded
  };

  explicit AsyncGenerator(Handle h) noexcept : handle_(h) {}
  AsyncGenerator(AsyncGenerator&& o) noexcept : handle_(std::exchange(o.handle_, {})) {}
  AsyncGenerator& operator=(AsyncGenerator&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~AsyncGenerator() {
    if (handle_) handle_.destroy();
  }

  class NextAwaiter {
   public:
    explicit NextAwaiter(Handle h) noexcept : handle_(h) {}
    bool await_ready() const noexcept { return !handle_ || handle_.done(); }
    template <engine::HasExecutor P>
    bool await_suspend(std::coroutine_handle<P> caller) {
      promise_type& p = handle_.promise();
      p.set_executor(caller.promise().executor());
      p.caller_ = caller;
      p.turn_.store(0, std::memory_order_relaxed);
      handle_.resume();
      return p.turn_.load(std::memory_order_acquire) != 2 && p.turn_.exchange(1, std::memory_order_acq_rel) != 2;
    }
    std::optional<T> await_resume() {
      if (!handle_) return std::nullopt;
      promise_type& p = handle_.promise();
      if (handle_.done()) {
        p.rethrow();
        return std::nullopt;
      }
      std::optional<T> value(std::move(p.value_));
      p.value_.reset();
      return value;
    }

   private:
    Handle handle_;
  };
  NextAwaiter next() noexcept { return NextAwaiter(handle_); }  // to be awaited: std::optional<T>

 private:
  Handle handle_;
};

}  // namespace kaon
