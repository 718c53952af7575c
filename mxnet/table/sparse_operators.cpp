#include "kaon/mxnet/table/sparse_operators.h"

#include <fmt/format.h>

#include "kaon/ops/functions.h"

namespace kaon::mxnet {

constinit const OpDef SparseRetain::def = make_op_def<SparseRetain>();
constinit const OpDef SquareSum::def = make_op_def<SquareSum>();

void SparseRetain::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 1);
  c.expect_ndim(1, 1);
  c.set_output(0, c.shape(0), c.dtype());
}

void SparseRetain::compose(ComposeContext& c) const {
  const NDArray &data = c.input(0), &indices = c.input(1);
  const int64_t rows = data.shape()[0], count = indices.shape()[0];
  const NDArray kept = nd._backward_take(nd.ones(Shape(count)), indices, {.shape = Shape(rows), .axis = 0});
  c.set(nd.where(kept, data, nd.zeros_like(data)));
}

namespace {
op::Sum sum_of(const SquareSum& s) { return {.axis = s.axis, .keepdims = s.keepdims, .exclude = s.exclude}; }
}  // namespace

void SquareSum::infer(InferContext& c) const { sum_of(*this).infer(c); }

void SquareSum::compose(ComposeContext& c) const { c.set(nd.sum(nd.square(c.input()), sum_of(*this))); }

}  // namespace kaon::mxnet
