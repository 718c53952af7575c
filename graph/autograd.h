// Autograd: records operator calls and computes gradients. Nothing here blocks.
// Thread safety: threads may record at once and on the same arrays. Two backward passes at once must share neither
// recorded calls nor attached gradients.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/task.h"
#include "kaon/engine/thread_context.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {

namespace ops {
class Interceptor;
}

namespace autograd {

// Whether the array is part of a recorded computation or has a gradient attached.
KAON_API bool wants_gradient(const NDArray& array);
// A number that each backward() that stores a gradient at this array changes; 0 before the first.
KAON_API uint64_t gradient_stamp(const NDArray& array);
// Changes it, where a program has stored a gradient in backward()'s place. Nothing without a gradient attached.
KAON_API void stamp_gradient(const NDArray& array);

KAON_API ops::Interceptor* tape();  // the interceptor that records
KAON_API bool is_recording();       // of this thread, or coroutine
KAON_API bool is_training();

// Sets recording and training of this thread (or coroutine) while it lives. Not for users: record(), pause(),
// train_mode() and predict_mode() also take coroutines, across whose suspensions a guard on the stack does not work.
class ModeScope {
 public:
  ModeScope(bool recording, bool training) : saved_(engine::thread_context()) {
    engine::ThreadContext& c = engine::thread_context();
    c.recording = recording;
    c.training = training;
    c.interceptor = recording ? tape() : nullptr;
  }
  ~ModeScope() {
    engine::ThreadContext& c = engine::thread_context();
    c.recording = saved_.recording;
    c.training = saved_.training;
    c.interceptor = saved_.interceptor;
  }
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  engine::ThreadContext saved_;
};

namespace detail {
// Throws TraceError in a trace: a traced program runs in one mode from end to end.
KAON_API void refuse_in_trace(const char* what);

template <class F>
auto in_mode(bool recording, bool training, F&& fn) {
  return engine::call_in_scope<ModeScope>(std::forward<F>(fn), recording, training);
}
}  // namespace detail

// Each calls fn in a mode and returns its result. fn may also return a Task: then the result is a Task that keeps a
// copy of fn, so that its captures last, and runs it in the mode. For g++ 12 such an fn with captures must have a name.
// A trace has one mode: in hybrid_forward record(), pause() and a change between training and prediction throw
// TraceError; x.detach() keeps gradients out.
template <class F>
auto record(F&& fn, bool train_mode = true) {  // records operators on arrays that want a gradient
  detail::refuse_in_trace("record");
  return detail::in_mode(true, train_mode, std::forward<F>(fn));
}
template <class F>
auto pause(F&& fn, bool train_mode = false) {  // nothing is recorded
  detail::refuse_in_trace("pause");
  return detail::in_mode(false, train_mode, std::forward<F>(fn));
}
template <class F>
auto train_mode(F&& fn) {  // Dropout and BatchNorm behave as in training
  if (!is_training()) detail::refuse_in_trace("train_mode");
  return detail::in_mode(is_recording(), true, std::forward<F>(fn));
}
template <class F>
auto predict_mode(F&& fn) {  // and here as in prediction
  if (is_training()) detail::refuse_in_trace("predict_mode");
  return detail::in_mode(is_recording(), false, std::forward<F>(fn));
}

// Computes the gradients of the sum of `heads`, weighted by `head_grads` (empty: ones), and writes them into the
// attached gradients, or adds them (GradReq). Frees the recorded values unless retain_graph. Throws StateError for a
// head that was not recorded, for recorded values that an earlier backward() has freed or that were changed in place,
// and for an operator without gradient; ShapeError, TypeError, DeviceError and ValueError for head_grads unlike heads.
KAON_API void backward(std::span<const NDArray> heads, std::span<const NDArray> head_grads = {},
                       bool retain_graph = false, std::source_location site = std::source_location::current());

// Returns the gradients with respect to `variables`, zeros where none arrives; attached gradients stay. With
// create_graph the gradients are recorded themselves. Throws as backward() does, and StateError for a variable that has
// no gradient attached and is not a recorded value.
KAON_API std::vector<NDArray> grad(std::span<const NDArray> heads, std::span<const NDArray> variables,
                                   std::span<const NDArray> head_grads = {}, bool retain_graph = false,
                                   bool create_graph = false,
                                   std::source_location site = std::source_location::current());
inline NDArray grad(const NDArray& head, const NDArray& variable, bool create_graph = false,
                    std::source_location site = std::source_location::current()) {
  return grad(std::span(&head, 1), std::span(&variable, 1), {}, create_graph, create_graph, site)[0];
}

// A recorded call of a Function, for its backward: arrays in the order of the call. `heads` are the gradients of the
// outputs, zeros where none arrives.
struct FunctionCall {
  std::span<const NDArray> inputs, outputs, heads;
};

namespace detail {
using FunctionBackward = std::function<std::vector<NDArray>(const FunctionCall&)>;
KAON_API std::vector<NDArray> call_function(std::span<const NDArray* const> inputs,
                                            engine::FunctionRef<std::vector<NDArray>()> forward,
                                            const std::shared_ptr<const FunctionBackward>& backward,
                                            const std::source_location& site);
[[noreturn]] KAON_API void refuse_function_in_trace();
}  // namespace detail

// A differentiable function of the program's own: forward(x, ...) computes one NDArray, or a vector of them, without
// being recorded; backward(call) gives the gradient of each input, an NDArray or a vector, undefined where it is zero.
// With create_graph what backward does is recorded, unless it pauses that.
//
//     const autograd::Function straight_through_sign(
//         [](const NDArray& x) { return nd.sign(x); },
//         [](const autograd::FunctionCall& call) { return call.heads[0]; });
//     NDArray y = straight_through_sign(x);
//
// Throws, at a backward(), ValueError for another number of gradients than inputs, ShapeError and TypeError for a
// gradient unlike its input, StateError for inputs and outputs that were changed since the call; in a trace TraceError:
// there, write an operator (ops/op_def.h). Thread safety: as the two callables, which are copied.
template <class Forward>
class Function {
 public:
  template <class Backward>
    requires std::invocable<const Backward&, const FunctionCall&> Function(Forward forward, Backward backward)
        : forward_(std::move(forward)),
          backward_(std::make_shared<const detail::FunctionBackward>(
              [f = std::move(backward)](const FunctionCall& call) { return listed(f(call)); })) {}

    template <std::same_as<NDArray>... Rest>
    auto operator()(const In<NDArray>& first, const Rest&... rest) const {
      using Result = std::decay_t<decltype(forward_(first.array(), rest...))>;
      const NDArray* inputs[] = {&first.array(), &rest...};
      std::vector<NDArray> outputs = detail::call_function(
          inputs, [&] { return listed(forward_(first.array(), rest...)); }, backward_, first.site());
      if constexpr (std::is_same_v<Result, NDArray>) {
        return outputs[0];
      } else {
        return outputs;
      }
    }
    template <class A, class... Rest>
      requires(!std::convertible_to<A, NDArray>)
    A operator()(const A&, const Rest&...) const { detail::refuse_function_in_trace(); }

   private:
    static std::vector<NDArray> listed(NDArray array) { return {std::move(array)}; }
    static std::vector<NDArray> listed(std::vector<NDArray> arrays) { return arrays; }
    Forward forward_;
    std::shared_ptr<const detail::FunctionBackward> backward_;
};
template <class Forward, class Backward>
Function(Forward, Backward) -> Function<Forward>;

}  // namespace autograd

}  // namespace kaon
