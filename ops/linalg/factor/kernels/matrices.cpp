#include "kaon/ops/linalg/factor/kernels/matrices.h"

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace kaon::ops {

void expect_matrices(const InferContext& c, int i) { c.expect_ndim_at_least(i, 2); }

void expect_square(const InferContext& c, int i) {
  expect_matrices(c, i);
  const Matrices m(c.shape(i));
  if (m.rows != m.columns) c.fail(fmt::format("the matrices of A must be square, got {}", c.describe_inputs()));
}

void expect_factorable(const InferContext& c) {
  c.expect_same_dtype();
  if (c.dtype() != DType::float32 && c.dtype() != DType::float64) {
    c.fail_dtype(fmt::format("A must be float32 or float64, got {}", name_of(c.dtype())));
  }
  for (int i = 0; i < c.num_inputs(); ++i) {
    for (int64_t size : c.shape(i)) {
      if (size > INT32_MAX) c.fail(fmt::format("sizes must be below 2^31, got {}", c.describe_inputs()));
    }
  }
}

Shape batch_shape(const Shape& matrices) {
  const Shape batch = of_batch(matrices, {});
  return batch.empty() ? Shape(1) : batch;
}

Shape of_batch(const Shape& matrices, std::initializer_list<int64_t> axes) {
  Shape shape;
  for (int i = 0; i < matrices.ndim() - 2; ++i) shape.push_back(matrices[i]);
  for (int64_t n : axes) shape.push_back(n);
  return shape;
}

void fail_matrix(const OpDef& op, int64_t i, const std::string& why) {
  throw ValueError(fmt::format("[{}] matrix {} of the batch {}", op.name(), i, why));
}

NDArray transposed(const NDArray& x) { return nd.swapaxes(x, x.shape().ndim() - 2, x.shape().ndim() - 1); }

NDArray mirrored(const NDArray& x) {
  const NDArray lower = nd._triangle(x);
  return lower + transposed(lower) - nd.linalg_makediag(nd.linalg_extractdiag(x));
}

NDArray as_numbers(const NDArray& x, const Shape& matrices) {
  return nd._reshape_to(x, {.shape = of_batch(matrices, {1, 1})});
}
NDArray as_rows(const NDArray& x) { return nd.expand_dims(x, -2); }
NDArray as_columns(const NDArray& x) { return nd.expand_dims(x, -1); }

}  // namespace kaon::ops
