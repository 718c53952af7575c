// Row_sparse gradients: for weights of which a batch reads few rows.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/sparse/sparse.h"

namespace KAON_API kaon {
namespace autograd {

// As x.attach_grad(), with a gradient that stores only the rows which backward() has written. x.grad() is undefined
// then. Embedding with sparse_grad = true gives such gradients, recorded itself or in a hybridized block, where it
// reads x as it is; a backward() in which a dense gradient arrives at x throws StateError, as from another operator and
// from an Embedding in a loop or branch. Throws TypeError unless the dtype is floating, ShapeError for an array without
// dimensions.
KAON_API void attach_row_sparse_grad(const NDArray& x, GradReq req = GradReq::write);
// Whether x has one.
KAON_API bool has_row_sparse_grad(const NDArray& x);
// It: the rows that were read, in ascending order. Blocks until the indices of the calls are computed, not their
// gradients, but for those of hybridized blocks, which come together. Throws StateError where there is none. Thread
// safety: not beside a backward() that writes it.
KAON_API sparse::RowSparseNDArray row_sparse_grad(const NDArray& x);

}  // namespace autograd
}  // namespace kaon
