// Gate: where a coroutine waits while it is closed.
#pragma once

#include <coroutine>
#include <mutex>
#include <utility>

#include "kaon/engine/await.h"

namespace kaon::gluon::detail {

// Open at first. One coroutine waits at a time. Thread safety: any thread.
class Gate {
 public:
  void close() {
    std::lock_guard lock(mutex_);
    is_open_ = false;
  }
  void open() {
    std::coroutine_handle<> waiting;
    Executor* executor;
    {
      std::lock_guard lock(mutex_);
      is_open_ = true;
      waiting = std::exchange(waiting_, {});
      executor = executor_;
    }
    if (waiting) engine::post_surely(*executor, waiting);
  }

  bool await_ready() {
    std::lock_guard lock(mutex_);
    return is_open_;
  }
  template <engine::HasExecutor P>
  bool await_suspend(std::coroutine_handle<P> caller) {
    std::lock_guard lock(mutex_);
    if (is_open_) return false;
    waiting_ = caller;
    executor_ = caller.promise().executor();
    return true;
  }
  void await_resume() const {}

 private:
  std::mutex mutex_;
  bool is_open_ = true;
  std::coroutine_handle<> waiting_;
  Executor* executor_ = nullptr;
};

}  // namespace kaon::gluon::detail
