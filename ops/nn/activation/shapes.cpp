// silu, mish, log_sigmoid, hard_swish, the shrinking functions, celu, threshold.
#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/nn/activation/activation.h"
#include "kaon/ops/nn/activation/kernels/shape_kernels.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

using namespace ops;

template <PlainActivation K>
constinit const OpDef op::Plain<K>::def = make_op_def<op::Plain<K>>();
constinit const OpDef op::HardShrink::def = make_op_def<op::HardShrink>();
constinit const OpDef op::SoftShrink::def = make_op_def<op::SoftShrink>();
constinit const OpDef op::Celu::def = make_op_def<op::Celu>();
constinit const OpDef op::Threshold::def = make_op_def<op::Threshold>();

namespace {

void infer_activation(InferContext& c) {
  c.expect_floating();
  c.set_output(c.shape(0), c.dtype());
}

// The head where x is not between -lambd and lambd.
void set_outer_gradient(GradContext& g, double lambd) {
  if (!g.wants(0)) return;
  g.set(0, nd.where(nd.abs(g.input(0)) <= lambd, nd.zeros_like(g.head()), g.head()));
}

// A number as it is in the expression's type.
std::string literal(double v, const ExpressionArgs& a) {
  return a.dtype == DType::float64 ? cuda_literal(v) : cuda_literal(float(v));
}

}  // namespace

// --- without attributes

template <PlainActivation K>
void op::Plain<K>::infer(InferContext& c) const {
  infer_activation(c);
}

template <PlainActivation K>
void op::Plain<K>::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  const NDArray &x = g.input(0), &h = g.head();
  switch (K) {
    case PlainActivation::silu: {
      const NDArray s = nd.sigmoid(x);
      return g.set(0, h * (s * (x * (1.0 - s) + 1.0)));
    }
    case PlainActivation::mish: {
      const NDArray t = nd.tanh(nd.softrelu(x));
      return g.set(0, h * (t + x * nd.sigmoid(x) * (1.0 - nd.square(t))));
    }
    case PlainActivation::log_sigmoid: return g.set(0, h * nd.sigmoid(nd.negative(x)));
    case PlainActivation::hard_swish: {
      const NDArray gate = nd.hard_sigmoid(x, {.alpha = 1.0 / 6});
      return g.set(0, h * (gate + x * (1.0 / 6) * (gate > 0) * (gate < 1)));
    }
    case PlainActivation::tanh_shrink: return g.set(0, h * nd.square(nd.tanh(x)));
  }
}

template <PlainActivation K>
FusedForms op::Plain<K>::fused_forms(const RegisterKernels&) const {
  return {{}, shape_kernels<Plain<K>>().float32};
}

template <PlainActivation K>
std::optional<CudaExpression> op::Plain<K>::cuda_expression(const ExpressionArgs& a) const {
  const std::string &x = a.in[0], type = a.type();
  switch (K) {
    case PlainActivation::silu: return fmt::format("({0} / ({1}(1) + {1}(::exp(-{0}))))", x, type);
    case PlainActivation::mish:
      return fmt::format("({0} * {1}(::tanh({0} > {1}(30) ? {0} : {1}(::log1p(::exp({0}))))))", x, type);
    case PlainActivation::log_sigmoid:
      return fmt::format("(({0} > {1}(0) ? {1}(0) : {0}) - {1}(::log1p(::exp(-::fabs({0})))))", x, type);
    case PlainActivation::hard_swish:
      return fmt::format("({0} * hard_sigmoid_value<{1}>({0}, {1}({2}), {1}(0.5)))", x, type, literal(1.0 / 6, a));
    case PlainActivation::tanh_shrink: return fmt::format("({0} - {1}(::tanh({0})))", x, type);
  }
  return {};
}

template struct op::Plain<PlainActivation::silu>;
template struct op::Plain<PlainActivation::mish>;
template struct op::Plain<PlainActivation::log_sigmoid>;
template struct op::Plain<PlainActivation::hard_swish>;
template struct op::Plain<PlainActivation::tanh_shrink>;

void ops::run_plain_activation(PlainActivation kind, KernelContext& c) {
  switch (kind) {
    case PlainActivation::silu: return run_pointwise(shape_kernels<op::Silu>(), nullptr, c);
    case PlainActivation::mish: return run_pointwise(shape_kernels<op::Mish>(), nullptr, c);
    case PlainActivation::log_sigmoid: return run_pointwise(shape_kernels<op::LogSigmoid>(), nullptr, c);
    case PlainActivation::hard_swish: return run_pointwise(shape_kernels<op::HardSwish>(), nullptr, c);
    case PlainActivation::tanh_shrink: return run_pointwise(shape_kernels<op::TanhShrink>(), nullptr, c);
  }
}

// --- hard_shrink and soft_shrink

namespace {

void expect_shrink(InferContext& c, double lambd) {
  if (!(lambd >= 0)) c.fail_value(fmt::format("lambd must not be negative, got {}", lambd));
  infer_activation(c);
}

}  // namespace

void op::HardShrink::infer(InferContext& c) const { expect_shrink(c, lambd); }
void op::HardShrink::grad(GradContext& g) const { set_outer_gradient(g, lambd); }
FusedForms op::HardShrink::fused_forms(const RegisterKernels&) const {
  return {{}, shape_kernels<HardShrink>().float32};
}
std::optional<CudaExpression> op::HardShrink::cuda_expression(const ExpressionArgs& a) const {
  return fmt::format("({0} <= {1} && {0} >= -{1} ? {2}(0) : {0})", a.in[0], literal(lambd, a), a.type());
}
void run_cpu(const op::HardShrink& op, KernelContext& c) { run_pointwise(shape_kernels<op::HardShrink>(), &op, c); }

void op::SoftShrink::infer(InferContext& c) const { expect_shrink(c, lambd); }
void op::SoftShrink::grad(GradContext& g) const { set_outer_gradient(g, lambd); }
FusedForms op::SoftShrink::fused_forms(const RegisterKernels&) const {
  return {{}, shape_kernels<SoftShrink>().float32};
}
std::optional<CudaExpression> op::SoftShrink::cuda_expression(const ExpressionArgs& a) const {
  return fmt::format("({0} <= {1} && {0} >= -{1} ? {2}(0) : {0} > {2}(0) ? {0} - {1} : {0} + {1})", a.in[0],
                     literal(lambd, a), a.type());
}
void run_cpu(const op::SoftShrink& op, KernelContext& c) { run_pointwise(shape_kernels<op::SoftShrink>(), &op, c); }

// --- celu and threshold

void op::Celu::infer(InferContext& c) const {
  if (!(alpha > 0)) c.fail_value(fmt::format("alpha must be positive, got {}", alpha));
  infer_activation(c);
}
void op::Celu::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  const NDArray& x = g.input(0);
  g.set(0, g.head() * nd.exp(nd.minimum(x, 0.0) / alpha));
}
FusedForms op::Celu::fused_forms(const RegisterKernels&) const { return {{}, shape_kernels<Celu>().float32}; }
std::optional<CudaExpression> op::Celu::cuda_expression(const ExpressionArgs& a) const {
  return fmt::format("({0} > {2}(0) ? {0} : {1} * {2}(::expm1({0} / {1})))", a.in[0], literal(alpha, a), a.type());
}
void run_cpu(const op::Celu& op, KernelContext& c) { run_pointwise(shape_kernels<op::Celu>(), &op, c); }

void op::Threshold::infer(InferContext& c) const { infer_activation(c); }
void op::Threshold::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  g.set(0, nd.where(g.input(0) <= threshold, nd.zeros_like(g.head()), g.head()));
}
FusedForms op::Threshold::fused_forms(const RegisterKernels&) const { return {{}, shape_kernels<Threshold>().float32}; }
std::optional<CudaExpression> op::Threshold::cuda_expression(const ExpressionArgs& a) const {
  return fmt::format("({0} <= {1} ? {2} : {0})", a.in[0], literal(threshold, a), literal(value, a));
}
void run_cpu(const op::Threshold& op, KernelContext& c) { run_pointwise(shape_kernels<op::Threshold>(), &op, c); }

}  // namespace kaon
