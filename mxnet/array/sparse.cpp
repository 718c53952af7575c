// Row_sparse and csr arrays: their parts.
#include <fmt/format.h>

#include "kaon/graph/autograd.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/sparse_array.h"

using namespace kaon;
using namespace kaon::mxnet;
using ops::StorageType;

namespace {

SparseArray& sparse_of(NDArrayHandle handle) {
  const ArrayObject& object = array_of(handle);
  if (!object.sparse) throw ValueError("expected a row_sparse or csr array, got a dense one");
  refresh(*object.sparse);
  return *object.sparse;
}

NDArray& part_of(SparseArray& array, uint32_t i) {
  if (i < array.aux.size()) return array.aux[i];
  throw ValueError(fmt::format("expected an auxiliary array below {}, got {}", array.aux.size(), i));
}

template <class Int>
int create(int storage_type, const Int* dims, int ndim, int dev_type, int dev_id, int dtype, uint32_t num_aux,
           const int* aux_type, NDArrayHandle* out) {
  return guard([&] {
    const Context context = Context::numbered(dev_type, dev_id);
    for (uint32_t i = 0; i < num_aux; ++i) {
      if (DType(aux_type[i]) != DType::int64) throw ValueError("indices of sparse arrays are int64");
    }
    Shape shape;
    for (int i = 0; i < ndim; ++i) shape.push_back(int64_t(dims[i]));
    *out = new ArrayObject(nothing_stored(StorageType(storage_type), shape, DType(dtype), context.device()), context);
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
    *out = new_handle(object.sparse ? sparse_of(handle).data : dense_of(object, "data"), object.context);
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

namespace {

// Throws ValueError unless the numbers are in [0, limit), and ascend where `ascend`.
void check_indices(const std::vector<int64_t>& numbers, size_t begin, size_t end, int64_t limit, const char* what) {
  for (size_t i = begin; i < end; ++i) {
    if (numbers[i] < 0 || numbers[i] >= limit || (i > begin && numbers[i] <= numbers[i - 1])) {
      throw ValueError(
          fmt::format("[check_format] {} must ascend in [0, {}), got {} at {}", what, limit, numbers[i], i));
    }
  }
}

void check_csr(const SparseArray& array, bool full_check) {
  const std::vector<int64_t> starts = array.aux[0].asvector<int64_t>(), columns = array.aux[1].asvector<int64_t>();
  const int64_t rows = array.shape[0], stored = array.data.size();
  if (int64_t(starts.size()) != rows + 1 || int64_t(columns.size()) != stored) {
    throw ValueError(fmt::format("[check_format] expected {} entries of indptr and {} indices, got {} and {}", rows + 1,
                                 stored, starts.size(), columns.size()));
  }
  if (starts.front() != 0 || starts.back() != stored) {
    throw ValueError(fmt::format("[check_format] indptr must go from 0 to {}, got {} and {}", stored, starts.front(),
                                 starts.back()));
  }
  if (!full_check) return;
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    if (starts[i] < 0 || starts[i] > starts[i + 1] || starts[i + 1] > stored) {
      throw ValueError(
          fmt::format("[check_format] indptr must ascend to {}, got {} after {}", stored, starts[i + 1], starts[i]));
    }
    check_indices(columns, size_t(starts[i]), size_t(starts[i + 1]), array.shape[1], "the indices of a row");
  }
}

void check_rows(const SparseArray& array, bool full_check) {
  const NDArray& indices = array.aux[0];
  if (array.data.ndim() == 0 || indices.ndim() != 1 || array.data.shape()[0] != indices.shape()[0]) {
    throw ValueError(fmt::format("[check_format] expected an index for each row of {}, got {}",
                                 array.data.shape().str(), indices.shape().str()));
  }
  if (full_check) check_indices(indices.asvector<int64_t>(), 0, size_t(indices.size()), array.shape[0], "indices");
}

}  // namespace

int MXNDArraySyncCheckFormat(NDArrayHandle handle, const bool full_check) {
  return guard([&] {
    if (!array_of(handle).sparse) return;
    const SparseArray& array = sparse_of(handle);
    array.storage == StorageType::csr ? check_csr(array, full_check) : check_rows(array, full_check);
  });
}
