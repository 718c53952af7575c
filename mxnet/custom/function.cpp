// MXCustomFunctionRecord: autograd.Function, a computation of a program with a backward of its own.
#include <fmt/format.h>

#include "kaon/engine/error.h"
#include "kaon/graph/autograd.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/custom/callback_list.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/handle.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

enum : size_t { function_backward, function_delete };
using BackwardFunction = int (*)(int, int, void**, const int*, int, void*);

std::vector<NDArray> call_backward(const CallbackList& callbacks, const autograd::FunctionCall& call) {
  if (!may_call_back()) throw StateError("[Function] the program has ended: its backward is not called");
  std::vector<NDArray> gradients;
  std::vector<void*> handles;  // the callee's
  for (const NDArray& head : call.heads) handles.push_back(new ArrayObject(head.detach()));
  for (const NDArray& input : call.inputs) {
    gradients.push_back(NDArray::empty(input.shape(), input.dtype(), input.device()));
    handles.push_back(new ArrayObject(gradients.back()));
  }
  const std::vector<int> reqs(gradients.size(), 1);  // written
  const autograd::ModeScope mode(false, true);
  if (!callbacks.call<BackwardFunction>(function_backward, int(call.heads.size()), int(gradients.size()),
                                        handles.data(), reqs.data(), 1)) {
    throw Error("[Function] the backward of the program has failed: its error was printed where it was raised");
  }
  return gradients;
}

}  // namespace

int MXCustomFunctionRecord(int num_inputs, NDArrayHandle* inputs, int num_outputs, NDArrayHandle* outputs,
                           struct MXCallbackList* callbacks) {
  return guard([&] {
    const auto list = std::make_shared<const CallbackList>(*callbacks, size_t(function_delete));
    std::vector<const NDArray*> given;
    std::vector<NDArray> results;
    for (int i = 0; i < num_inputs; ++i) given.push_back(&array_of(inputs[i]).array);
    for (int i = 0; i < num_outputs; ++i) results.push_back(array_of(outputs[i]).array);
    const auto backward = std::make_shared<const autograd::detail::FunctionBackward>(
        [list](const autograd::FunctionCall& call) { return call_backward(*list, call); });
    results = autograd::detail::call_function(
        given, [&] { return results; }, backward, std::source_location{});
    for (int i = 0; i < num_outputs; ++i) array_of(outputs[i]).array = results[size_t(i)];
  });
}
