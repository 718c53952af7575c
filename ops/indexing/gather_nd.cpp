#include "kaon/ops/indexing/indexing.h"

#include <algorithm>

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::GatherNd::def = make_op_def<op::GatherNd>();
constinit const OpDef op::GatherNdGrad::def = make_op_def<op::GatherNdGrad>();

namespace {

Shape gathered_shape(InferContext& c, const Shape& data) {
  const Shape& indices = c.shape(1);
  c.expect_ndim_at_least(1, 1);
  if (c.dtype(1) == DType::boolean) c.fail_dtype("indices must be numbers, got bool");
  const int64_t m = indices[0];
  if (m < 1 || m > data.ndim()) {
    c.fail(fmt::format("the first dimension of indices must be 1 to {}, got shape {}", data.ndim(), indices.str()));
  }
  Shape out;
  for (int i = 1; i < indices.ndim(); ++i) out.push_back(indices[i]);
  for (int i = int(m); i < data.ndim(); ++i) out.push_back(data[i]);
  if (out.empty()) out.push_back(1);
  return out;
}

// The tuples as positions among the slices of an array of this shape.
const int64_t* flat_positions(KernelContext& c, const Shape& data, const char* op) {
  const TensorView& indices = c.in(1);
  const int m = int(indices.shape[0]);
  const int64_t count = indices.shape.product(1, indices.shape.ndim());
  int64_t* flat = static_cast<int64_t*>(c.run.workspace(size_t(std::max<int64_t>(1, count)) * sizeof(int64_t)));
  std::fill_n(flat, count, 0);
  for (int k = 0; k < m; ++k) {
    TensorView row{indices.as<char>() + size_t(k * count) * size_of(indices.dtype), Shape(count), indices.dtype};
    const int64_t* at = load_indices(c, row, data[k], IndexMode::raise, op);
    for (int64_t j = 0; j < count; ++j) flat[j] = flat[j] * data[k] + at[j];
  }
  return flat;
}

}  // namespace

void op::GatherNd::infer(InferContext& c) const { c.set_output(gathered_shape(c, c.shape(0)), c.dtype()); }

void op::GatherNd::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd._backward_gather_nd(g.head(), g.input(1), {.shape = g.input_like(0).shape()}));
}

void run_cpu(const op::GatherNd&, KernelContext& c) {
  const Shape &data = c.in(0).shape, &indices = c.in(1).shape;
  const int m = int(indices[0]);
  gather_rows(c, flat_positions(c, data, "gather_nd"), indices.product(1, indices.ndim()), data.product(0, m), 1,
              data.product(m, data.ndim()), c.in(0).data, c.out().data, size_of(c.in(0).dtype));
}

void op::GatherNdGrad::infer(InferContext& c) const {
  if (!shape.is_known()) c.fail_value(fmt::format("shape must be known, got {}", shape.str()));
  if (c.dtype() == DType::boolean) c.fail_dtype("is not implemented for dtype bool");
  c.expect_shape(0, gathered_shape(c, shape));
  c.set_output(shape, c.dtype());
}

void op::GatherNdGrad::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd.gather_nd(g.head(), g.input(1)));
}

void run_cpu(const op::GatherNdGrad& op, KernelContext& c) {
  const Shape& indices = c.in(1).shape;
  const int m = int(indices[0]);
  scatter_add(c, flat_positions(c, op.shape, "_backward_gather_nd"), indices.product(1, indices.ndim()),
              op.shape.product(0, m), 1, op.shape.product(m, op.shape.ndim()), c.in(0).data, c.out().data,
              c.out().dtype);
}

}  // namespace kaon
