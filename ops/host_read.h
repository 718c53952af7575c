// Reading an array's values on the host, as an operation, so that later writes wait for it.
#pragma once

#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/await.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {

namespace ops {
// Throws TraceError while a block is traced, naming the line that reads a value.
KAON_API void check_not_tracing(const std::source_location& site);
// The array itself, or a copy on the host of one on a GPU. Nothing is recorded.
KAON_API NDArray on_host(const NDArray& array, const std::source_location& site);

// Calls `read` with the array as an operation, after the writes pushed before and ahead of later ones, and blocks until
// it has returned; on this thread when the array's engine has ended. Throws the array's failure.
KAON_API void read_in_turn(const NDArray& array, FunctionRef<void(const ArrayNode&)> read, const OpLabel& label);

// Pushes a copy of the array's elements, converted to T, to `out` (room for size() elements), which is complete once
// `done` is readable. Both must live until then.
template <class T>
KAON_API void push_host_copy(const NDArray& array, T* out, Var& done, const std::source_location& site);

// co_await x.host<float>(): the values as a vector, in row-major order. Throws the array's failure; TraceError in a
// trace.
template <class T>
class HostAwaiter : private engine::OwnVar, private engine::VarWait {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> holds no bools to copy to: read uint8_t");

 public:
  HostAwaiter(NDArray array, std::source_location site)
      : VarWait(OwnVar::get(), AccessMode::read), array_(std::move(array)), site_(site) {}

  bool await_ready() const noexcept { return false; }
  template <HasExecutor P>
  bool await_suspend(std::coroutine_handle<P> caller) {
    caller_ = caller;
    executor_ = caller.promise().executor();
    Engine& engine = array_.engine();
    values_.resize(size_t(array_.size()));
    push_host_copy(array_, values_.data(), OwnVar::get(), site_);
    return enqueue(engine);
  }
  std::vector<T> await_resume() {
    throw_failure();
    return std::move(values_);
  }

 private:
  void signalled() noexcept override { post_surely(*executor_, caller_); }

  NDArray array_;
  std::vector<T> values_;
  std::source_location site_;
  std::coroutine_handle<> caller_;
  Executor* executor_ = nullptr;
};

// co_await x.item<float>(): the value of an array of one element.
template <class T>
class ItemAwaiter {
 public:
  ItemAwaiter(const NDArray& array, std::source_location site) : host_(array, site) {}
  bool await_ready() const noexcept { return host_.await_ready(); }
  template <HasExecutor P>
  bool await_suspend(std::coroutine_handle<P> caller) {
    return host_.await_suspend(caller);
  }
  T await_resume() { return host_.await_resume().front(); }

 private:
  HostAwaiter<T> host_;
};
}  // namespace ops

}  // namespace kaon
