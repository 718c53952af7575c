#include "kaon/ops/dlpack.h"

#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/handle.h"
#include "kaon/ops/array/dlpack_structs.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

// A copy of a tensor whose struct is the caller's and may go at the return; the elements stay.
struct CopiedTensor {
  explicit CopiedTensor(const DLManagedTensor& given) : original(given), copy(given) {
    copy.manager = this;
    copy.deleter = [](DLManagedTensor* self) {
      const std::unique_ptr<CopiedTensor> own(static_cast<CopiedTensor*>(self->manager));
      if (own->original.deleter) own->original.deleter(&own->original);
    };
  }
  DLManagedTensor original, copy;
};

}  // namespace

int MXNDArrayToDLPack(NDArrayHandle handle, DLManagedTensorHandle* out_dlpack) {
  return guard([&] { *out_dlpack = dlpack::to(dense_of(array_of(handle), "to_dlpack")); });
}

int MXNDArrayFromDLPackEx(DLManagedTensorHandle dlpack, const bool transient_handle, NDArrayHandle* out_handle) {
  return guard([&] {
    auto* tensor = static_cast<DLManagedTensor*>(dlpack);
    if (transient_handle && tensor) {
      auto copied = std::make_unique<CopiedTensor>(*tensor);
      *out_handle = new ArrayObject(dlpack::from(&copied->copy));
      copied.release();
    } else {
      *out_handle = new ArrayObject(dlpack::from(tensor));
    }
  });
}
int MXNDArrayFromDLPack(DLManagedTensorHandle dlpack, NDArrayHandle* out_handle) {
  return MXNDArrayFromDLPackEx(dlpack, false, out_handle);
}

int MXNDArrayCallDLPackDeleter(DLManagedTensorHandle dlpack) {
  return guard([&] {
    auto* tensor = static_cast<DLManagedTensor*>(dlpack);
    if (tensor && tensor->deleter) tensor->deleter(tensor);
  });
}
