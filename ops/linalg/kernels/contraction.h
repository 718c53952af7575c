// Arrays as batches of matrices, and the products that operators are made of.
#pragma once

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/ndarray.h"
#include "kaon/ops/op.h"

namespace kaon::ops {

// An array as matrices (batch, rows, columns), or where `transposed` as (batch, columns, rows).
struct MatrixBatch {
  NDArray x;
  bool transposed = false;
};

// x with these axes as batch, rows and columns, each of x's axes in one of them. It is copied only where its axes are
// in neither order.
MatrixBatch as_matrices(const NDArray& x, const Shape& batch, const Shape& rows, const Shape& columns);

// (batch, m, n) of (batch, m, k) and (batch, k, n), of any dtype but bool. Whole numbers wrap.
NDArray batch_product(const MatrixBatch& a, const MatrixBatch& b);

// x with axis i from axes[i]; x itself where they are in order.
NDArray reordered(const NDArray& x, const Shape& axes);

Shape joined(const Shape& a, const Shape& b);
// shape[axes[i]] for each i.
Shape sizes_of(const Shape& shape, const Shape& axes);
// The numbers of `ndim` axes that are not in `axes`, in order; and `count` numbers from `begin` on.
Shape other_axes(int ndim, const Shape& axes);
Shape consecutive_axes(int begin, int count);

inline Shape at_least_1d(const Shape& s) { return s.empty() ? Shape(1) : s; }

// Throws TypeError unless the inputs have one dtype other than bool.
void expect_numbers(const InferContext& c);

}  // namespace kaon::ops
