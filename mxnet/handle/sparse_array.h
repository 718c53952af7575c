// Row_sparse and csr arrays as MXNet's handles have them: a program replaces their parts, and operators their contents.
#pragma once

#include "kaon/graph/ir/history.h"
#include "kaon/mxnet/handle/handle.h"
#include "kaon/ops/array/stored_array.h"
#include "kaon/ops/sparse/sparse.h"

namespace kaon::mxnet {

// A row_sparse or csr array. Handles on one such array share it. csr: aux is indptr, indices; row_sparse: indices.
struct SparseArray : ops::StoredArray {
  DType dtype = DType::float32;
  // With a gradient attached: the dense array that stands for this one in recorded computations and updates.
  NDArray recorded;
  // Of a gradient: the dense array to which backward() writes it, and the rows that it has, zeros among them: an
  // update of these rows alone moves every one that was read.
  NDArray gradient;
  std::shared_ptr<autograd::RowsRead> rows_read;
  // How often the one of these that is there had been written when the parts were made of it.
  uint32_t num_writes = 0;
};

// An array that stores nothing. Throws ShapeError for a shape that the storage cannot have, ValueError for dense.
std::shared_ptr<SparseArray> nothing_stored(ops::StorageType storage, const Shape& shape, DType dtype, Device device);

// Brings the parts up to date with the dense array that stands for this one. Blocks where there is something new.
void refresh(SparseArray& array);

// The dense array that stands for this one in recorded computations: a new one.
NDArray begin_recorded(ArrayObject& object);
// Ends that.
void end_recorded(SparseArray& array);

// The dense array to which backward() writes this gradient: that of `array`, from now on.
NDArray dense_gradient(const std::shared_ptr<SparseArray>& array);

// As the types that Kaon's functions take. Throw ValueError for another storage, ShapeError for parts that do not fit.
sparse::RowSparseNDArray rows_of(SparseArray& array);
sparse::CSRNDArray csr_of(SparseArray& array);

// Its values as a dense array: the recorded one where there is one. Of a dense array: itself.
NDArray to_dense(ArrayObject& object);

// Gives the array other contents, of the same shape: the elements of `dense` that are not zero, or the parts of
// `other`, which has the same storage. Blocks.
void assign(SparseArray& array, const NDArray& dense);
void assign(SparseArray& array, SparseArray& other);
// The elements of `dense` that `like` stores: of the same storage, and of as many rows.
void assign_like(SparseArray& array, const NDArray& dense, SparseArray& like);

}  // namespace kaon::mxnet
