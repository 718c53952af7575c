// Views: arrays on the memory of another one; while recording, recorded operators.
#include <fmt/format.h>

#include "kaon/graph/autograd.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/handle.h"
#include "kaon/mxnet/handle/numpy_shape.h"
#include "kaon/mxnet/handle/sparse_array.h"
#include "kaon/ops/movement/kernels/shapes.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

// Rows [begin, end).
NDArray rows(const NDArray& array, int64_t begin, int64_t end) {
  if (array.ndim() == 0) throw IndexError("[slice] an array without dimensions cannot be sliced");
  if (begin < 0 || begin > end || end > array.shape()[0]) {
    throw IndexError(
        fmt::format("[slice] expected 0 <= begin <= end <= {}, got {} and {}", array.shape()[0], begin, end));
  }
  return array.slice(begin, end, no_site);
}

int at(NDArrayHandle handle, int64_t index, NDArrayHandle* out) {
  return guard([&] {
    const ArrayObject& object = array_of(handle);
    const NDArray& array = dense_of(object, "at");
    if (array.ndim() == 0) throw IndexError("[at] an array without dimensions cannot be indexed");
    if (index < 0 || index >= array.shape()[0]) {
      throw IndexError(fmt::format("[at] index {} is out of bounds for axis 0 with size {}", index, array.shape()[0]));
    }
    NDArray row = array[index];
    if (array.ndim() == 1 && has_numpy_shape()) row = row.reshape(Shape(), no_site);
    *out = new_handle(std::move(row), object.context);
  });
}

int slice(NDArrayHandle handle, int64_t begin, int64_t end, NDArrayHandle* out) {
  return guard([&] {
    const ArrayObject& object = array_of(handle);
    *out = new_handle(rows(dense_of(object, "slice"), begin, end), object.context);
  });
}

// MXNet's reshape may leave elements at the end out, where no dimension is to be found.
bool is_shorter(const Shape& codes, const NDArray& array) {
  for (const int64_t d : codes) {
    if (d <= 0) return false;
  }
  return codes.size() < array.size();
}

NDArray reshape(const NDArray& array, const Shape& codes, bool reverse) {
  if (is_shorter(codes, array)) {
    return array.reshape(Shape(-1), no_site).slice(0, codes.size(), no_site).reshape(codes, no_site);
  }
  return array.reshape(ops::infer_reshape(array.shape(), codes, reverse, "reshape"), no_site);
}

}  // namespace

int MXNDArrayAt(NDArrayHandle handle, uint32_t idx, NDArrayHandle* out) { return at(handle, idx, out); }
int MXNDArrayAt64(NDArrayHandle handle, int64_t idx, NDArrayHandle* out) { return at(handle, idx, out); }
int MXNDArraySlice(NDArrayHandle handle, uint32_t slice_begin, uint32_t slice_end, NDArrayHandle* out) {
  return slice(handle, slice_begin, slice_end, out);
}
int MXNDArraySlice64(NDArrayHandle handle, int64_t slice_begin, int64_t slice_end, NDArrayHandle* out) {
  return slice(handle, slice_begin, slice_end, out);
}

int MXNDArrayReshape64(NDArrayHandle handle, int ndim, int64_t* dims, bool reverse, NDArrayHandle* out) {
  return guard([&] {
    const ArrayObject& object = array_of(handle);
    Shape codes;
    for (int i = 0; i < ndim; ++i) codes.push_back(dims[i]);
    *out = new_handle(reshape(dense_of(object, "reshape"), codes, reverse), object.context);
  });
}

int MXNDArrayDetach(NDArrayHandle handle, NDArrayHandle* out) {
  return guard([&] {
    auto copy = std::make_unique<ArrayObject>(array_of(handle));
    if (copy->array.defined()) copy->array = copy->array.detach();
    if (copy->sparse) {
      refresh(*copy->sparse);
      copy->sparse = std::make_shared<SparseArray>(*copy->sparse);
      copy->sparse->recorded = copy->sparse->gradient = NDArray();
      copy->sparse->rows_read = nullptr;
    }
    *out = copy.release();
  });
}
