#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/nn/detection/kernels/box_values.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::BipartiteMatching::def = make_op_def<op::BipartiteMatching>();
constinit const OpDef op::BipartitePairs::def = make_op_def<op::BipartitePairs>();

void op::BipartiteMatching::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, 2);
  const Shape& data = c.shape(0);
  Shape rows, columns;
  for (int i = 0; i + 1 < data.ndim(); ++i) {
    rows.push_back(data[i]);
    columns.push_back(data[i + 2 == data.ndim() ? i + 1 : i]);
  }
  c.set_output(0, rows, c.dtype());
  c.set_output(1, columns, c.dtype());
}

void op::BipartiteMatching::compose(ComposeContext& c) const {
  const Shape& shape = c.input().shape();
  const int64_t rows = shape[shape.ndim() - 2], columns = shape.back(), samples = shape.product(0, shape.ndim() - 2);
  const NDArray data = nd.BlockGrad(c.input());
  const NDArray scores = nd._reshape_to(data, {.shape = {samples, rows, columns}});
  const NDArray flat = nd._reshape_to(data, {.shape = {samples, rows * columns}});
  const NDArray order = nd._order(flat, {.is_ascend = is_ascend})[1];
  const std::vector<NDArray> pairs =
      nd._bipartite_pairs(scores, order, {.is_ascend = is_ascend, .threshold = threshold, .topk = topk});
  for (int i : {0, 1}) c.set(i, nd._reshape_to(pairs[size_t(i)], {.shape = c.output(i).shape}));
}

void op::BipartitePairs::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 3);
  const Shape& data = c.shape(0);
  c.expect_shape(1, {data[0], data[1] * data[2]});
  if (c.dtype(1) != DType::int64) c.fail_dtype(fmt::format("order must be int64, got {}", name_of(c.dtype(1))));
  c.set_output(0, {data[0], data[1]}, c.dtype());
  c.set_output(1, {data[0], data[2]}, c.dtype());
}

void run_cpu(const op::BipartitePairs& op, KernelContext& c) {
  dispatch_float("_bipartite_pairs", c.in(0).dtype, [&]<class T>() {
    const BipartiteSample<T> sample(op, c);
    c.run.parallel_for(c.in(0).shape[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sample(i);
    });
  });
}

}  // namespace kaon
