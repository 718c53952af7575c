// The gradient attached to an array, and the flag that says whether a backward has stored a new one.
#include "kaon/graph/autograd.h"
#include "kaon/graph/ir/history.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/sparse_array.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

// The array that recorded computations see.
const NDArray& recorded(NDArrayHandle handle) {
  const ArrayObject& object = array_of(handle);
  return object.sparse ? object.sparse->recorded : object.array;
}

}  // namespace

int MXNDArrayGetGrad(NDArrayHandle handle, NDArrayHandle* out) {
  return guard([&] {
    const Context context = array_of(handle).context;
    const autograd::History* history = autograd::history_of(recorded(handle));
    *out = nullptr;
    if (!history || !history->grad.defined()) return;
    if (auto sparse = std::static_pointer_cast<SparseArray>(history->kept)) {
      *out = new ArrayObject(std::move(sparse), context);
    } else {
      *out = new_handle(history->grad, context);
    }
  });
}

int MXNDArrayGetGradState(NDArrayHandle handle, int* out) {
  return guard([&] { *out = autograd::gradient_stamp(recorded(handle)) != 0; });
}

int MXNDArraySetGradState(NDArrayHandle handle, int state) {
  return guard([&] {
    const NDArray& array = recorded(handle);
    if (state != 0) {
      autograd::stamp_gradient(array);
    } else if (autograd::History* history = autograd::history_of(array)) {
      history->stamp = 0;  // as before the first backward
    }
  });
}
