// Row_sparse and csr arrays: their parts.
#include <fmt/format.h>

#include "kaon/graph/autograd.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/handle.h"

using namespace kaon;
using namespace kaon::mxnet;
using ops::StorageType;

namespace {

SparseArray& sparse_of(NDArrayHandle handle) {
  const ArrayObject& object = array_of(handle);
  if (!object.sparse) throw ValueError("expected a row_sparse or csr array, got a dense one");
  return *object.sparse;
}

NDArray& part_of(SparseArray& array, uint32_t i) {
  if (i < array.aux.size()) return array.aux[i];
  throw ValueError(fmt::format("expected an auxiliary array below {}, got {}", array.aux.size(), i));
}

// An array that stores nothing.
std::shared_ptr<SparseArray> nothing_stored(StorageType storage, const Shape& shape, DType dtype, Device device) {
  auto made = std::make_shared<SparseArray>();
  made->storage = storage;
  made->shape = shape;
  made->dtype = dtype;
  Shape stored(0);
  if (storage == StorageType::row_sparse) {
    for (int i = 1; i < shape.ndim(); ++i) stored.push_back(shape[i]);
  } else {
    NDArray starts = NDArray::empty(Shape(shape[0] + 1), DType::int64, device);
    starts.assign(0);
    made->aux.push_back(std::move(starts));
  }
  made->data = NDArray::empty(stored, dtype, device);
  made->aux.push_back(NDArray::empty(Shape(0), DType::int64, device));
  return made;
}

template <class Int>
int create(int storage_type, const Int* dims, int ndim, int dev_type, int dev_id, int dtype, uint32_t num_aux,
           const int* aux_type, NDArrayHandle* out) {
  return guard([&] {
    const Context context = Context::numbered(dev_type, dev_id);
    if (storage_type != 1 && storage_type != 2) {
      throw ValueError(fmt::format("expected the storage type 1 (row_sparse) or 2 (csr), got {}", storage_type));
    }
    for (uint32_t i = 0; i < num_aux; ++i) {
      if (DType(aux_type[i]) != DType::int64) throw ValueError("indices of sparse arrays are int64");
    }
    Shape shape;
    for (int i = 0; i < ndim; ++i) shape.push_back(int64_t(dims[i]));
    const auto storage = StorageType(storage_type);
    if (storage == StorageType::csr ? ndim != 2 : ndim < 1) {
      throw ShapeError(fmt::format("a {} array cannot have the shape {}", ndim == 2 ? "sparse" : "csr", shape.str()));
    }
    *out = new ArrayObject(nothing_stored(storage, shape, DType(dtype), context.device()), context);
  });
}

}  // namespace

int MXNDArrayCreateSparseEx(int storage_type, const uint32_t* shape, uint32_t ndim, int dev_type, int dev_id, int,
                            int dtype, uint32_t num_aux, int* aux_type, uint32_t*, const uint32_t*,
                            NDArrayHandle* out) {
  return create(storage_type, shape, int(ndim), dev_type, dev_id, dtype, num_aux, aux_type, out);
}
int MXNDArrayCreateSparseEx64(int storage_type, const int64_t* shape, int ndim, int dev_type, int dev_id, int,
                              int dtype, uint32_t num_aux, int* aux_type, int*, const int64_t*, NDArrayHandle* out) {
  return create(storage_type, shape, ndim, dev_type, dev_id, dtype, num_aux, aux_type, out);
}

int MXNDArrayGetAuxType(NDArrayHandle handle, uint32_t i, int* out_type) {
  return guard([&] { *out_type = int(part_of(sparse_of(handle), i).dtype()); });
}
int MXNDArrayGetAuxNDArray(NDArrayHandle handle, uint32_t i, NDArrayHandle* out) {
  return guard([&] { *out = new_handle(part_of(sparse_of(handle), i), array_of(handle).context); });
}
int MXNDArrayGetDataNDArray(NDArrayHandle handle, NDArrayHandle* out) {
  return guard([&] {
    const ArrayObject& object = array_of(handle);
    *out = new_handle(object.sparse ? object.sparse->data : dense_of(object, "data"), object.context);
  });
}

// `i`: -1 for the values, else the auxiliary array.
int MXNDArraySyncCopyFromNDArray(NDArrayHandle handle_dst, NDArrayHandle handle_src, const int i) {
  return guard([&] {
    const autograd::ModeScope mode(false, autograd::is_training());
    ArrayObject& to = array_of(handle_dst);
    const NDArray& from = dense_of(array_of(handle_src), "copy");
    if (!to.sparse) {
      if (i >= 0) throw ValueError("a dense array has no auxiliary arrays");
      NDArray target = dense_of(to, "copy");
      target.assign(Arg<NDArray>(from, no_site));
      return;
    }
    NDArray& part = i < 0 ? to.sparse->data : part_of(*to.sparse, uint32_t(i));
    const DType dtype = i < 0 ? to.sparse->dtype : DType::int64;
    NDArray values = from.as_in_context(to.context.device(), no_site).astype(dtype, no_site);
    part = values;
  });
}

int MXNDArraySyncCheckFormat(NDArrayHandle handle, const bool) {
  return guard([&] {
    if (array_of(handle).sparse) refuse("check_format", "the check of sparse arrays is not there yet");
  });
}
