#include "kaon/ops/indexing/indexing.h"

#include <fmt/format.h>

#include "kaon/ops/array/row_gradient.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Take::def = make_op_def<op::Take>();
constinit const OpDef op::TakeGrad::def = make_op_def<op::TakeGrad>();
constinit const OpDef op::Embedding::def = make_op_def<op::Embedding>();
constinit const OpDef op::SparseEmbedding::def = make_op_def<op::SparseEmbedding>();

namespace {

Shape taken_shape(const Shape& a, const Shape& indices, int axis) {
  Shape out;
  for (int i = 0; i < axis; ++i) out.push_back(a[i]);
  for (int64_t d : indices) out.push_back(d);
  for (int i = axis + 1; i < a.ndim(); ++i) out.push_back(a[i]);
  return out;
}

void expect_numbers(const InferContext& c, int i) {
  if (c.dtype(i) == DType::boolean) c.fail_dtype("indices must be numbers, got bool");
}

}  // namespace

void op::Take::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 1);
  expect_numbers(c, 1);
  const int at = normalize_axis(axis, c.shape(0).ndim(), c.op());
  if (c.shape(0)[at] == 0 && c.shape(1).size() > 0) {
    c.fail(fmt::format("cannot take from axis {} of shape {}", at, c.shape(0).str()));
  }
  c.set_output(taken_shape(c.shape(0), c.shape(1), at), c.dtype());
}

IndexUse op::Take::index_use(std::span<const TensorView> inputs) const {
  const Shape& s = inputs[0].shape;
  if (mode != IndexMode::clip) return {};
  return {1, s[normalize_axis(axis, s.ndim(), "take")]};
}

void op::Take::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd._backward_take(g.head(), g.input(1), {.shape = g.input_like(0).shape(), .axis = axis, .mode = mode}));
}

void run_cpu(const op::Take& op, KernelContext& c) {
  const Shape& a = c.in(0).shape;
  const int at = normalize_axis(op.axis, a.ndim(), "take");
  const int64_t* positions = load_indices(c, c.in(1), a[at], op.mode, "take");
  gather_rows(c, positions, c.in(1).size(), a[at], a.product(0, at), a.product(at + 1, a.ndim()), c.in(0).data,
              c.out().data, size_of(c.in(0).dtype));
}

void op::TakeGrad::infer(InferContext& c) const {
  expect_numbers(c, 0);
  expect_numbers(c, 1);
  if (!shape.is_known()) c.fail_value(fmt::format("shape must be known, got {}", shape.str()));
  const int at = normalize_axis(axis, shape.ndim(), c.op());
  if (shape[at] == 0 && c.shape(1).size() > 0) c.fail(fmt::format("cannot scatter into shape {}", shape.str()));
  c.expect_shape(0, taken_shape(shape, c.shape(1), at));
  c.set_output(shape, c.dtype());
}

void op::TakeGrad::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd.take(g.head(), g.input(1), {.axis = axis, .mode = mode}));
}

void run_cpu(const op::TakeGrad& op, KernelContext& c) {
  const Shape& a = op.shape;
  const int at = normalize_axis(op.axis, a.ndim(), "_backward_take");
  const int64_t* positions = load_indices(c, c.in(1), a[at], op.mode, "_backward_take");
  scatter_add(c, positions, c.in(1).size(), a[at], a.product(0, at), a.product(at + 1, a.ndim()), c.in(0).data,
              c.out().data, c.out().dtype);
}

namespace {

void infer_embedding(InferContext& c, int64_t input_dim, int64_t output_dim, DType dtype) {
  if (input_dim < 1 || output_dim < 1) {
    c.fail_value(fmt::format("input_dim and output_dim must be positive, got {} and {}", input_dim, output_dim));
  }
  if (dtype != DType::float32 && dtype != c.dtype(1)) {
    c.fail_dtype(fmt::format("dtype is {}, weight has {}", name_of(dtype), name_of(c.dtype(1))));
  }
  expect_numbers(c, 0);
  c.expect_shape(1, Shape(input_dim, output_dim));
  Shape out = c.shape(0);
  out.push_back(output_dim);
  c.set_output(out, c.dtype(1));
}

}  // namespace

void op::Embedding::infer(InferContext& c) const { infer_embedding(c, input_dim, output_dim, dtype); }

void op::SparseEmbedding::infer(InferContext& c) const { infer_embedding(c, input_dim, output_dim, dtype); }
void op::SparseEmbedding::compose(ComposeContext& c) const {
  c.set(nd.Embedding(c.input(0), c.input(1), {.input_dim = input_dim, .output_dim = output_dim, .dtype = dtype}));
}

namespace {

// The rows that a call of Embedding reads, as int64 (k,).
NDArray clipped_rows(const NDArray& data, int64_t rows) {
  const auto clip = [&](const NDArray& x) { return nd.clip(x, 0, double(rows - 1)); };
  const NDArray flat = nd._reshape_to(data, {.shape = Shape(data.size())});
  // A number that int64 has not is clipped first, where that loses nothing; then what rounding has moved.
  const bool is_wide = is_floating(data.dtype()) || data.dtype() == DType::uint64;
  return clip(nd.cast(is_wide ? clip(flat) : flat, DType::int64));
}

}  // namespace

void op::Embedding::grad(GradContext& g) const {
  if (!g.wants(1) || !g.has_head(0)) return;
  if (auto* rows = sparse_grad ? dynamic_cast<RowGradContext*>(&g) : nullptr; rows && rows->takes_rows(1)) {
    const NDArray& data = g.input(0);
    const NDArray values = nd._reshape_to(g.head(), {.shape = Shape(data.size(), output_dim)});
    return rows->set_rows(1, values, clipped_rows(data, input_dim));
  }
  g.set(1, nd._backward_take(g.head(), g.input(0),
                             {.shape = g.input_like(1).shape(), .axis = 0, .mode = IndexMode::clip}));
}

void run_cpu(const op::Embedding& op, KernelContext& c) {
  const int64_t* positions = load_indices(c, c.in(0), op.input_dim, IndexMode::clip, "Embedding");
  gather_rows(c, positions, c.in(0).size(), op.input_dim, 1, op.output_dim, c.in(1).data, c.out().data,
              size_of(c.in(1).dtype));
}

}  // namespace kaon
