#include "kaon/ops/movement/movement.h"

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/movement/kernels/copies.h"
#include "kaon/ops/movement/kernels/shapes.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::BroadcastTo::def = make_op_def<op::BroadcastTo>();
constinit const OpDef op::BroadcastAxis::def = make_op_def<op::BroadcastAxis>();
constinit const OpDef op::BroadcastLike::def = make_op_def<op::BroadcastLike>();

namespace {

// Checks that `in` can be repeated to `out`, matched from the right.
void set_broadcast(InferContext& c, const Shape& out) {
  const Shape& in = c.shape(0);
  bool fits = in.ndim() <= out.ndim() && out.is_known();
  for (int i = 1; fits && i <= in.ndim(); ++i) {
    const int64_t from = in[in.ndim() - i];
    fits = from == 1 || from == out[out.ndim() - i];
  }
  if (!fits) c.fail(fmt::format("cannot broadcast {} to {}", in.str(), out.str()));
  c.set_output(out, c.dtype());
}

void sum_back(GradContext& g) {
  if (g.wants(0) && g.has_head(0)) g.set(0, sum_to_shape(g.head(), g.input_like(0).shape()));
}

}  // namespace

}  // namespace kaon

namespace kaon::ops {

// Kept dimensions are written -1, so that the operator holds for other sizes of them too.
NDArray sum_to_shape(const NDArray& x, const Shape& shape) {
  const Shape& from = x.shape();
  if (from == shape) return x;
  Shape codes = shape;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (shape[i] == from[i + from.ndim() - shape.ndim()]) codes[i] = -1;
  }
  return nd._sum_to(x, {.shape = codes});
}

}  // namespace kaon::ops

namespace kaon {

FusedForms op::BroadcastTo::fused_forms(const RegisterKernels&) const {
  FusedForms forms;
  forms.broadcasts = forms.copies = true;
  return forms;
}

std::optional<CudaExpression> op::BroadcastTo::cuda_expression(const ExpressionArgs& a) const { return a.in[0]; }

void op::BroadcastTo::infer(InferContext& c) const {
  const Shape& in = c.shape(0);
  Shape out = shape;
  for (int i = 0; i < out.ndim(); ++i) {
    const int k = i - (out.ndim() - in.ndim());
    if (out[i] == 0 && k >= 0) out[i] = in[k];
  }
  set_broadcast(c, out);
}
void op::BroadcastTo::grad(GradContext& g) const { sum_back(g); }
void run_cpu(const op::BroadcastTo& op, KernelContext& c) { strided_copy(c, copy_of(op, c)); }

FusedForms op::BroadcastAxis::fused_forms(const RegisterKernels&) const {
  FusedForms forms;
  forms.broadcasts = forms.copies = true;
  return forms;
}

std::optional<CudaExpression> op::BroadcastAxis::cuda_expression(const ExpressionArgs& a) const { return a.in[0]; }

void op::BroadcastAxis::infer(InferContext& c) const {
  Shape out = c.shape(0);
  if (axis.ndim() != size.ndim()) {
    c.fail_value(fmt::format("axis {} and size {} must have the same length", axis.str(), size.str()));
  }
  for (int i = 0; i < axis.ndim(); ++i) {
    const int at = normalize_axis(axis[i], out.ndim(), c.op());
    if (c.shape(0)[at] != 1) c.fail(fmt::format("axis {} must have size 1, got shape {}", axis[i], c.shape(0).str()));
    out[at] = size[i];
  }
  set_broadcast(c, out);
}
void op::BroadcastAxis::grad(GradContext& g) const { sum_back(g); }
void run_cpu(const op::BroadcastAxis& op, KernelContext& c) { strided_copy(c, copy_of(op, c)); }

void op::BroadcastLike::infer(InferContext& c) const {
  if (lhs_axes.has_value() != rhs_axes.has_value() || (lhs_axes && lhs_axes->ndim() != rhs_axes->ndim())) {
    c.fail_value("lhs_axes and rhs_axes must be given together and have the same length");
  }
  if (!lhs_axes) return set_broadcast(c, c.shape(1));
  if (lhs_axes->empty()) c.fail_value("lhs_axes and rhs_axes must name an axis, got ()");
  Shape out = c.shape(0);
  for (int i = 0; i < lhs_axes->ndim(); ++i) {
    out[normalize_axis((*lhs_axes)[i], out.ndim(), c.op())] =
        c.shape(1)[normalize_axis((*rhs_axes)[i], c.shape(1).ndim(), c.op())];
  }
  set_broadcast(c, out);
}
void op::BroadcastLike::grad(GradContext& g) const { sum_back(g); }
void run_cpu(const op::BroadcastLike& op, KernelContext& c) { strided_copy(c, copy_of(op, c)); }

}  // namespace kaon
