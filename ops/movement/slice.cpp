#include "kaon/ops/movement/movement.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/movement/kernels/copies.h"
#include "kaon/ops/movement/kernels/slice_range.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Slice::def = make_op_def<op::Slice>();
constinit const OpDef op::SliceAxis::def = make_op_def<op::SliceAxis>();
constinit const OpDef op::SliceLike::def = make_op_def<op::SliceLike>();
constinit const OpDef op::SliceGrad::def = make_op_def<op::SliceGrad>();
constinit const OpDef op::SliceAssign::def = make_op_def<op::SliceAssign>();
constinit const OpDef op::SliceAssignScalar::def = make_op_def<op::SliceAssignScalar>();

namespace {

// Whether a region is the whole of the first axis.
template <class Op>
bool has_whole_first_axis(const Op& op) {
  return !op.begin.empty() && op.begin[0].value_or(0) == 0 && (op.end.empty() || !op.end[0]) &&
         (op.step.empty() || op.step[0].value_or(1) == 1);
}

}  // namespace

bool op::Slice::keeps_rows(const RowQuery& q) const { return q.all_have_rows() && has_whole_first_axis(*this); }
bool op::SliceAssign::keeps_rows(const RowQuery& q) const { return q.all_have_rows() && has_whole_first_axis(*this); }
bool op::SliceAssignScalar::keeps_rows(const RowQuery& q) const {
  return q.all_have_rows() && has_whole_first_axis(*this);
}

namespace {

void set_gradient(GradContext& g, const SliceRange& range) {
  g.set(0, nd._backward_slice(g.head(), {.shape = g.input_like(0).shape(), .begin = range.begin, .step = range.step}));
}

}  // namespace

void op::Slice::infer(InferContext& c) const {
  c.set_output(resolve_slice(c.shape(0), begin, end, step, c.op()).count, c.dtype());
}
void op::Slice::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) set_gradient(g, resolve_slice(g.input_like(0).shape(), begin, end, step, "slice"));
}
void run_cpu(const op::Slice& op, KernelContext& c) { strided_copy(c, copy_of(op, c)); }

void op::SliceAxis::infer(InferContext& c) const {
  c.set_output(resolve_axis(c.shape(0), axis, begin, end, c.op()).count, c.dtype());
}
void op::SliceAxis::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0))
    set_gradient(g, resolve_axis(g.input_like(0).shape(), axis, begin, end, "slice_axis"));
}
void run_cpu(const op::SliceAxis& op, KernelContext& c) { strided_copy(c, copy_of(op, c)); }

void op::SliceLike::infer(InferContext& c) const {
  const Shape &in = c.shape(0), &like = c.shape(1);
  Shape out = in;
  if (axes.empty()) {
    if (in.ndim() != like.ndim())
      c.fail(fmt::format("data and shape_like must have the same number of axes: {}", c.describe_inputs()));
    out = like;
  } else {
    for (int64_t axis : axes) {
      const int at = normalize_axis(axis, in.ndim(), c.op());
      if (at >= like.ndim()) c.fail(fmt::format("shape_like has no axis {}: {}", at, c.describe_inputs()));
      out[at] = like[at];
    }
  }
  for (int i = 0; i < in.ndim(); ++i) {
    if (out[i] > in[i])
      c.fail(fmt::format("data is smaller than shape_like along axis {}: {}", i, c.describe_inputs()));
  }
  c.set_output(out, c.dtype());
}
void op::SliceLike::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) set_gradient(g, whole_range(g.input_like(0).shape()));
}
void run_cpu(const op::SliceLike& op, KernelContext& c) { strided_copy(c, copy_of(op, c)); }

void op::SliceGrad::infer(InferContext& c) const {
  const Shape& head = c.shape(0);
  bool fits =
      shape.is_known() && head.ndim() == shape.ndim() && begin.ndim() == shape.ndim() && step.ndim() == shape.ndim();
  for (int i = 0; fits && i < shape.ndim(); ++i) {
    const int64_t last = begin[i] + (head[i] - 1) * step[i];
    fits = step[i] != 0 && (head[i] == 0 || (begin[i] >= 0 && begin[i] < shape[i] && last >= 0 && last < shape[i]));
  }
  if (!fits) {
    c.fail(fmt::format("head {} at begin {}, step {} does not lie in shape {}", head.str(), begin.str(), step.str(),
                       shape.str()));
  }
  c.set_output(shape, c.dtype());
}
void op::SliceGrad::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape& part = g.input_like(0).shape();
  OptionalShape end;
  for (int i = 0; i < part.ndim(); ++i) {
    const int64_t e = begin[i] + part[i] * step[i];
    end.push_back(e < 0 ? std::optional<int64_t>() : std::min(e, shape[i]));  // None: before the first
  }
  g.set(0, nd.slice(g.head(), begin, end, step));
}
void run_cpu(const op::SliceGrad& op, KernelContext& c) {
  const TensorView& out = c.out();
  if (c.in(0).size() != out.size()) zero_bytes(c.run, out.data, out.bytes());
  strided_copy(c, copy_of(op, c));
}

void op::SliceAssign::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_shape(1, resolve_slice(c.shape(0), begin, end, step, c.op()).count);
  c.set_output(c.shape(0), c.dtype());
}
void op::SliceAssign::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  if (g.wants(0)) g.set(0, nd._slice_assign_scalar(g.head(), {.begin = begin, .end = end, .step = step, .scalar = 0}));
  if (g.wants(1)) g.set(1, nd.slice(g.head(), begin, end, step));
}
void run_cpu(const op::SliceAssign& op, KernelContext& c) {
  const TensorView& out = c.out();
  copy_bytes(c.run, c.in(0).data, out.data, out.bytes());
  strided_copy(c.run, copy_of(op, c), c.in(1).data, out.data, size_of(out.dtype));
}

void op::SliceAssignScalar::infer(InferContext& c) const {
  resolve_slice(c.shape(0), begin, end, step, c.op());
  expect_holds(c, "scalar", scalar, c.dtype());
  c.set_output(c.shape(0), c.dtype());
}
void op::SliceAssignScalar::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd._slice_assign_scalar(g.head(), {.begin = begin, .end = end, .step = step, .scalar = 0}));
}
void run_cpu(const op::SliceAssignScalar& op, KernelContext& c) {
  const TensorView& out = c.out();
  copy_bytes(c.run, c.in(0).data, out.data, out.bytes());
  const uint64_t element = element_bits(op.scalar, out.dtype);
  strided_copy(c.run, copy_of(op, c), &element, out.data, size_of(out.dtype));
}

}  // namespace kaon
