// Operators made of _scatter_set_nd.
#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/indexing/indexing.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::ScatterNd::def = make_op_def<op::ScatterNd>();
constinit const OpDef op::IndexCopy::def = make_op_def<op::IndexCopy>();

void op::ScatterNd::infer(InferContext& c) const {
  if (!shape.is_known()) c.fail_value(fmt::format("shape must be known, got {}", shape.str()));
  if (c.dtype(1) == DType::boolean) c.fail_dtype("indices must be numbers, got bool");
  c.expect_ndim_at_least(1, 1);
  const Shape &data = c.shape(0), &indices = c.shape(1);
  const int64_t m = indices[0];
  if (m < 1 || m > shape.ndim()) {
    c.fail(fmt::format("the first dimension of indices must be 1 to {}, got shape {}", shape.ndim(), indices.str()));
  }
  Shape slices;
  for (int i = 1; i < indices.ndim(); ++i) slices.push_back(indices[i]);
  for (int i = int(m); i < shape.ndim(); ++i) slices.push_back(shape[i]);
  if (slices.empty()) slices.push_back(1);
  if (data != slices) {
    c.fail(fmt::format("data must have shape {}, got {}; indices have {}, the result {}", slices.str(), data.str(),
                       indices.str(), shape.str()));
  }
  c.set_output(shape, c.dtype());
}

void op::ScatterNd::compose(ComposeContext& c) const {
  const NDArray zeros = nd.zeros(shape, {.dtype = c.output().dtype});
  c.set(nd._scatter_set_nd(zeros, c.input(0), c.input(1), {.shape = shape}));
}

void op::IndexCopy::infer(InferContext& c) const {
  const Shape &old = c.shape(0), &index = c.shape(1);
  c.expect_ndim_at_least(0, 1);
  c.expect_ndim(1, 1);
  if (c.dtype(1) == DType::boolean) c.fail_dtype("index_vector must be numbers, got bool");
  if (c.dtype(0) != c.dtype(2)) {
    c.fail_dtype(fmt::format("old_tensor and new_tensor must have one dtype, got {} and {}; use cast",
                             name_of(c.dtype(0)), name_of(c.dtype(2))));
  }
  Shape rows = old;
  rows[0] = index[0];
  c.expect_shape(2, rows);
  c.set_output(old, c.dtype());
}

void op::IndexCopy::compose(ComposeContext& c) const {
  const NDArray tuples = nd._reshape_to(c.input(1), {.shape = Shape(1, c.input(1).size())});
  c.set(nd._scatter_set_nd(c.input(0), c.input(2), tuples, {.shape = c.input(0).shape()}));
}

}  // namespace kaon
