#include "kaon/mxnet/handle/sparse_array.h"

#include <fmt/format.h>

#include <set>

#include "kaon/graph/autograd.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/functions.h"

namespace kaon::mxnet {

using namespace ops;
using sparse::CSRNDArray;
using sparse::RowSparseNDArray;

namespace {

Device device_of(const SparseArray& array) { return array.data.device(); }

void set_parts(SparseArray& array, const NDArray& dense) {
  if (array.storage == StorageType::row_sparse) {
    const auto rows = sparse::cast_storage<RowSparseNDArray>(dense);
    array.data = rows.data();
    array.aux = {rows.indices()};
  } else {
    const auto csr = sparse::cast_storage<CSRNDArray>(dense);
    array.data = csr.data();
    array.aux = {csr.indptr(), csr.indices()};
  }
}

// The rows of `dense` that are not zero, and those of `read`.
void set_rows(SparseArray& array, const NDArray& dense, const autograd::RowsRead& read) {
  std::set<int64_t> rows;
  const auto add = [&](const NDArray& indices) {
    const std::vector<int64_t> values = indices.asvector<int64_t>(no_site);
    rows.insert(values.begin(), values.end());
  };
  for (const NDArray& indices : read.indices) add(indices);
  add(sparse::cast_storage<RowSparseNDArray>(dense).indices());
  const std::vector<int64_t> sorted(rows.begin(), rows.end());
  const NDArray indices =
      NDArray::from(sorted.data(), sorted.size(), Shape(int64_t(sorted.size())), DType::int64, dense.device());
  array.data = nd.take(In<NDArray>(dense, no_site), In<NDArray>(indices, no_site), {.axis = 0});
  array.aux = {indices};
}

// Null: none stands for it.
NDArray* dense_form(SparseArray& array) {
  return array.recorded.defined() ? &array.recorded : array.gradient.defined() ? &array.gradient : nullptr;
}

// The parts have changed: the dense array that stands for them is written too.
void write_through(SparseArray& array) {
  NDArray* form = dense_form(array);
  if (!form) return;
  if (array.rows_read) array.rows_read->indices = {array.aux[0]};
  ArrayObject same(std::shared_ptr<SparseArray>(&array, [](SparseArray*) {}), Context::of(device_of(array)));
  NDArray dense = std::exchange(*form, NDArray());  // so that the parts count
  const autograd::ModeScope mode(false, autograd::is_training());
  dense.assign(Arg<NDArray>(to_dense(same), no_site));
  array.num_writes = dense.node().buffer->num_writes();
  *form = std::move(dense);
}

}  // namespace

std::shared_ptr<SparseArray> nothing_stored(StorageType storage, const Shape& shape, DType dtype, Device device) {
  auto made = std::make_shared<SparseArray>();
  made->storage = storage;
  made->shape = shape;
  made->dtype = dtype;
  const ArrayOptions options{.dtype = dtype, .device = device};
  if (storage == StorageType::row_sparse) {
    const auto rows = sparse::zeros<RowSparseNDArray>(shape, options);
    made->data = rows.data();
    made->aux = {rows.indices()};
  } else if (storage == StorageType::csr) {
    const auto csr = sparse::zeros<CSRNDArray>(shape, options);
    made->data = csr.data();
    made->aux = {csr.indptr(), csr.indices()};
  } else {
    throw ValueError(fmt::format("expected the storage type 1 (row_sparse) or 2 (csr), got {}", int(storage)));
  }
  return made;
}

NDArray begin_recorded(ArrayObject& object) {
  SparseArray& array = *object.sparse;
  end_recorded(array);
  array.recorded = to_dense(object);
  array.num_writes = array.recorded.node().buffer->num_writes();
  return array.recorded;
}

void end_recorded(SparseArray& array) {
  if (!array.recorded.defined()) return;
  refresh(array);
  array.recorded = NDArray();
}

NDArray dense_gradient(const std::shared_ptr<SparseArray>& array) {
  if (!array->gradient.defined()) {
    ArrayObject object(array, Context::of(device_of(*array)));
    array->gradient = to_dense(object);
    if (array->storage == StorageType::row_sparse) array->rows_read = std::make_shared<autograd::RowsRead>();
    array->num_writes = array->gradient.node().buffer->num_writes();
  }
  return array->gradient;
}

void refresh(SparseArray& array) {
  const NDArray* form = dense_form(array);
  if (!form) return;
  const uint32_t now = form->node().buffer->num_writes();
  if (now == array.num_writes) return;
  const autograd::ModeScope mode(false, autograd::is_training());
  if (array.rows_read && form == &array.gradient) {
    set_rows(array, form->detach(), *array.rows_read);
    array.rows_read->indices = {array.aux[0]};  // of gradients that add up, too: one list, not one for each call
  } else {
    set_parts(array, form->detach());
  }
  array.num_writes = now;
}

RowSparseNDArray rows_of(SparseArray& array) {
  if (array.storage != StorageType::row_sparse) throw ValueError("expected a row_sparse array, got a csr one");
  refresh(array);
  return RowSparseNDArray(array.data, array.aux[0], array.shape);
}

CSRNDArray csr_of(SparseArray& array) {
  if (array.storage != StorageType::csr) throw ValueError("expected a csr array, got a row_sparse one");
  refresh(array);
  return CSRNDArray(array.data, array.aux[1], array.aux[0], array.shape);
}

NDArray to_dense(ArrayObject& object) {
  if (!object.sparse) return dense_of(object, "to dense");
  SparseArray& array = *object.sparse;
  if (array.recorded.defined()) return array.recorded;
  if (array.gradient.defined()) return array.gradient;
  return array.storage == StorageType::csr ? csr_of(array).todense() : rows_of(array).todense();
}

void assign(SparseArray& array, const NDArray& dense) {
  if (dense.shape() != array.shape) {
    throw ShapeError(fmt::format("the result has shape {}, which does not fit into an array of shape {}",
                                 dense.shape().str(), array.shape.str()));
  }
  NDArray values = dense;
  if (values.dtype() != array.dtype) values = values.astype(array.dtype, no_site);
  set_parts(array, values.as_in_context(device_of(array), no_site));
  write_through(array);
}

void assign_like(SparseArray& array, const NDArray& dense, SparseArray& like) {
  refresh(like);
  const autograd::ModeScope mode(false, autograd::is_training());
  const Device device = device_of(array);
  const auto taken = [](const NDArray& from, const NDArray& where) {
    return nd.take(In<NDArray>(from, no_site), In<NDArray>(where, no_site), {.axis = 0});
  };
  NDArray values = dense.detach();
  if (values.dtype() != array.dtype) values = values.astype(array.dtype, no_site);
  values = values.as_in_context(device, no_site);
  std::vector<NDArray> aux;
  for (const NDArray& part : like.aux) {
    const NDArray own = part.as_in_context(device, no_site);
    aux.push_back(own.ptr() == part.ptr() ? nd.identity(In<NDArray>(own, no_site)) : own);
  }
  if (array.storage == StorageType::row_sparse) {
    array.data = taken(values, aux[0]);
  } else {
    const std::vector<int64_t> starts = aux[0].asvector<int64_t>(), columns = aux[1].asvector<int64_t>();
    std::vector<int64_t> places;
    for (size_t row = 0; row + 1 < starts.size(); ++row) {
      for (int64_t k = starts[row]; k < starts[row + 1]; ++k) {
        places.push_back(int64_t(row) * dense.shape()[1] + columns[size_t(k)]);
      }
    }
    const NDArray where =
        NDArray::from(places.data(), places.size(), Shape(int64_t(places.size())), DType::int64, device);
    array.data = taken(values.reshape(Shape(-1), no_site), where);
  }
  array.aux = std::move(aux);
  write_through(array);
}

void assign(SparseArray& array, SparseArray& other) {
  if (&array == &other) return;
  refresh(other);
  if (other.shape != array.shape || other.storage != array.storage) {
    throw ShapeError(fmt::format("a sparse array of shape {} does not fit into one of shape {}", other.shape.str(),
                                 array.shape.str()));
  }
  const Device device = device_of(array);
  const auto take = [&](const NDArray& part, DType dtype) {
    NDArray own = part.as_in_context(device, no_site);
    return own.dtype() == dtype ? nd.identity(In<NDArray>(own, no_site)) : own.astype(dtype, no_site);
  };
  std::vector<NDArray> aux;
  for (const NDArray& part : other.aux) aux.push_back(take(part, DType::int64));
  array.data = take(other.data, array.dtype);
  array.aux = std::move(aux);
  write_through(array);
}

}  // namespace kaon::mxnet
