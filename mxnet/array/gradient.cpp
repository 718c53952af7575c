// The gradient attached to an array, and the flag that says whether a backward has stored a new one.
#include "kaon/graph/autograd.h"
#include "kaon/graph/ir/history.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/handle.h"

using namespace kaon;
using namespace kaon::mxnet;

int MXNDArrayGetGrad(NDArrayHandle handle, NDArrayHandle* out) {
  return guard([&] {
    const ArrayObject& object = array_of(handle);
    const NDArray gradient = object.array.defined() ? object.array.grad() : NDArray();
    *out = gradient.defined() ? new_handle(gradient, object.context) : nullptr;
  });
}

int MXNDArrayGetGradState(NDArrayHandle handle, int* out) {
  return guard([&] { *out = autograd::gradient_stamp(array_of(handle).array) != 0; });
}

int MXNDArraySetGradState(NDArrayHandle handle, int state) {
  return guard([&] {
    const NDArray& array = array_of(handle).array;
    if (state != 0) {
      autograd::stamp_gradient(array);
    } else if (autograd::History* history = autograd::history_of(array)) {
      history->stamp = 0;  // as before the first backward
    }
  });
}
