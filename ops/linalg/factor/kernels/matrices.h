// Arrays as batches of matrices: their sizes, checks, the loop over them on the CPU, and the operators that gradients
// of factorisations are made of.
#pragma once

#include <algorithm>

#include "kaon/ops/linalg/factor/kernels/factorize.h"
#include "kaon/ops/ndarray.h"
#include "kaon/ops/op.h"

namespace kaon::ops {

// The matrices along the last two axes.
struct Matrices {
  int64_t batch, rows, columns;
  explicit Matrices(const Shape& s) : batch(s.product(0, s.ndim() - 2)), rows(s[s.ndim() - 2]), columns(s.back()) {}
  int64_t size() const { return rows * columns; }
};

// Each throws, naming the operator: fewer than two axes; rows and columns that differ; other dtypes than float32 and
// float64; sizes that LAPACK's integers do not hold.
void expect_matrices(const InferContext& c, int i = 0);
void expect_square(const InferContext& c, int i = 0);
void expect_factorable(const InferContext& c);

// The shape of the leading axes, (1,) where there are none, and with further ones behind them.
Shape batch_shape(const Shape& matrices);
Shape of_batch(const Shape& matrices, std::initializer_list<int64_t> axes);

// Throws ValueError "[op] matrix 2 of the batch: why".
[[noreturn]] void fail_matrix(const OpDef& op, int64_t i, const std::string& why);

// body(columns, i) for each matrix of a batch: one after the other where they are large, in parallel where they are
// not.
template <class F>
void each_matrix(RunContext& run, int64_t batch, double flops, F&& body) {
  constexpr double large = 8e6, enough = 1e5;
  if (flops > large) {
    for (int64_t i = 0; i < batch; ++i) body(Columns(&run), i);
    return;
  }
  run.parallel_for(batch, std::max<int64_t>(1, int64_t(enough / std::max(flops, 100.0))),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) body(Columns(nullptr), i);
                   });
}

// kernel.template operator()<T>() for the dtype, float32 or float64.
template <class Kernel>
void in_float_or_double(DType dtype, Kernel&& kernel) {
  if (dtype == DType::float64) {
    kernel.template operator()<double>();
  } else {
    kernel.template operator()<float>();
  }
}

NDArray transposed(const NDArray& x);  // the last two axes
// The lower triangle, and above it its mirror image.
NDArray mirrored(const NDArray& x);
// x of the batch's shape as (..., 1, 1); a vector for each matrix as (..., 1, n) or (..., n, 1).
NDArray as_numbers(const NDArray& x, const Shape& matrices);
NDArray as_rows(const NDArray& x);
NDArray as_columns(const NDArray& x);

}  // namespace kaon::ops
