// DLPack: arrays of other libraries in the same process (PyTorch, NumPy, JAX, CuPy, TVM) as NDArrays and back, on the
// CPU and on GPUs, without a copy. The structs are those of dlpack.h, which a program includes where it needs their
// fields. Both forms are understood: the one with a version and flags (DLPack 1), and the older one.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace KAON_API kaon {
namespace dlpack {

// An array over the tensor's memory. It takes the tensor over: its deleter is called once no array or pending operation
// needs the memory, on any thread. The values must be there: a producer with a stream of its own synchronises it first.
// Throws, and leaves the tensor to the caller: ValueError for null, for strides that are not row-major, for a tensor
// that may not be written and for another major version than 1, TypeError for an element type that Kaon has not,
// DeviceError for a device that Kaon has not.
KAON_API NDArray from(DLManagedTensor* tensor);
KAON_API NDArray from(DLManagedTensorVersioned* tensor);

// Block until the values are there. The array's memory as a tensor, which keeps it alive until its consumer calls the
// deleter; operations that are pushed in the meantime are not ordered with the consumer. Throw as wait_to_read() does.
KAON_API DLManagedTensor* to(const NDArray& array);
KAON_API DLManagedTensorVersioned* to_versioned(const NDArray& array);

}  // namespace dlpack
}  // namespace kaon
