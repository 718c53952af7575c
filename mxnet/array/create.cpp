// Arrays: making, freeing and describing them.
#include <fmt/format.h>

#include <limits>

#include "kaon/mxnet/array/shared_memory.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/handle.h"
#include "kaon/mxnet/handle/numpy_shape.h"
#include "kaon/mxnet/handle/returned.h"
#include "kaon/mxnet/handle/sparse_array.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

template <class Int>
Shape shape_of(const Int* dims, int ndim) {
  Shape shape;
  for (int i = 0; i < ndim; ++i) shape.push_back(int64_t(dims[i]));
  return shape;
}

DType dtype_numbered(int number) {
  const bool fits = number >= 0 && number <= std::numeric_limits<int8_t>::max();
  if (!fits || !ops::is_valid(DType(number)))
    throw ValueError(fmt::format("expected the number of a dtype, got {}", number));
  return DType(number);
}

template <class Int>
int create(const Int* dims, int ndim, int dev_type, int dev_id, int dtype, NDArrayHandle* out) {
  return guard([&] {
    const Context context = Context::numbered(dev_type, dev_id);
    const DType type = dtype_numbered(dtype);
    if (ndim <= 0 && !(ndim == 0 && has_numpy_shape())) {
      *out = new_handle({}, context);
      return;
    }
    const Shape shape = shape_of(dims, ndim);
    if (context.kind == ContextKind::cpu_shared) {
      *out = in_shared_memory(shape, type, context).release();
    } else {
      *out = new_handle(NDArray::empty(shape, type, context.device()), context);
    }
  });
}

template <class Int>
int get_shape(NDArrayHandle handle, int* out_dim, const Int** out_pdata, std::vector<Int>& dims) {
  return guard([&] {
    const ArrayObject& object = array_of(handle);
    dims.clear();
    *out_dim = has_numpy_shape() ? -1 : 0;
    if (!object.is_none()) {
      const Shape& shape = object.sparse ? object.sparse->shape : object.array.shape();
      for (const int64_t d : shape) dims.push_back(Int(d));
      *out_dim = shape.ndim();
    }
    dims.push_back(0);  // so that no dimensions have an address too
    *out_pdata = dims.data();
  });
}

}  // namespace

int MXNDArrayCreateNone(NDArrayHandle* out) {
  return guard([&] { *out = new_handle({}, Context()); });
}
int MXNDArrayCreateEx(const uint32_t* shape, uint32_t ndim, int dev_type, int dev_id, int, int dtype,
                      NDArrayHandle* out) {
  return create(shape, int(ndim), dev_type, dev_id, dtype, out);
}
int MXNDArrayCreateEx64(const int64_t* shape, int ndim, int dev_type, int dev_id, int, int dtype, NDArrayHandle* out) {
  return create(shape, ndim, dev_type, dev_id, dtype, out);
}

int MXNDArrayFree(NDArrayHandle handle) {
  return guard([&] { delete static_cast<ArrayObject*>(handle); });
}

int MXShallowCopyNDArray(NDArrayHandle src, NDArrayHandle* out) {
  return guard([&] { *out = new ArrayObject(array_of(src)); });
}

int MXNDArrayGetShapeEx(NDArrayHandle handle, int* out_dim, const int** out_pdata) {
  static thread_local std::vector<int> dims;
  return get_shape(handle, out_dim, out_pdata, dims);
}
int MXNDArrayGetShapeEx64(NDArrayHandle handle, int* out_dim, const int64_t** out_pdata) {
  static thread_local std::vector<int64_t> dims;
  return get_shape(handle, out_dim, out_pdata, dims);
}
int MXNDArrayGetDType(NDArrayHandle handle, int* out_dtype) {
  return guard([&] {
    const ArrayObject& object = array_of(handle);
    *out_dtype = object.is_none() ? -1 : int(object.sparse ? object.sparse->dtype : object.array.dtype());
  });
}
int MXNDArrayGetStorageType(NDArrayHandle handle, int* out_storage_type) {
  return guard([&] { *out_storage_type = array_of(handle).storage_number(); });
}
int MXNDArrayGetContext(NDArrayHandle handle, int* out_dev_type, int* out_dev_id) {
  return guard([&] {
    const Context& context = array_of(handle).context;
    *out_dev_type = int(context.kind);
    *out_dev_id = context.index;
  });
}
