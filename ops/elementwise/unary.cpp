#include "kaon/ops/elementwise/elementwise.h"

#include "kaon/ops/elementwise/kernels/unary_kernels.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/epilogue.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon::ops {

namespace {

// The gradient of f(x) = y for head gradient h: one expression each.
NDArray unary_gradient(UnaryKind kind, GradContext& g) {
  using U = UnaryKind;
  const NDArray& h = g.head();
  auto x = [&]() -> const NDArray& { return g.input(0); };
  auto y = [&]() -> const NDArray& { return g.output(); };
  switch (kind) {
    case U::relu: return nd._backward_relu(h, y());
    case U::sigmoid: return nd._backward_sigmoid(h, y());
    case U::tanh: return nd._backward_tanh(h, y());
    case U::gelu: return nd._backward_gelu(h, x());
    case U::exp: return h * y();
    case U::log: return h / x();
    case U::sqrt: return 0.5 * (h / y());
    case U::rsqrt: return -0.5 * (h * y() / x());
    case U::square: return 2.0 * (h * x());
    case U::abs: return h * nd.sign(x());
    case U::negative: return nd.negative(h);
    case U::reciprocal: return nd.negative(h / nd.square(x()));
    case U::erf: return 1.1283791670955126 * (h * nd.exp(nd.negative(nd.square(x()))));
    case U::log1p: return h / (x() + 1.0);
    case U::expm1: return h * (y() + 1.0);
    case U::log2: return 1.4426950408889634 * (h / x());
    case U::log10: return 0.43429448190325182 * (h / x());
    case U::sin: return h * nd.cos(x());
    case U::cos: return nd.negative(h * nd.sin(x()));
    case U::tan: return h * (nd.square(y()) + 1.0);
    case U::arcsin: return h * nd.rsqrt(1.0 - nd.square(x()));
    case U::arccos: return nd.negative(h * nd.rsqrt(1.0 - nd.square(x())));
    case U::arctan: return h / (nd.square(x()) + 1.0);
    case U::sinh: return h * nd.cosh(x());
    case U::cosh: return h * nd.sinh(x());
    case U::arcsinh: return h * nd.rsqrt(nd.square(x()) + 1.0);
    case U::arccosh: return h * nd.rsqrt(nd.square(x()) - 1.0);
    case U::arctanh: return h / (1.0 - nd.square(x()));
    case U::cbrt: return h / (3.0 * nd.square(y()));
    case U::rcbrt: return (-1.0 / 3) * (h * y() / x());
    case U::softsign: return h / nd.square(nd.abs(x()) + 1.0);
    case U::softrelu: return h * nd.sigmoid(x());
    case U::degrees: return 57.29577951308232 * h;
    case U::radians: return 0.017453292519943295 * h;
    case U::gamma: return h * y() * nd.digamma(x());
    case U::gammaln: return h * nd.digamma(x());
    case U::digamma: return h * nd.polygamma(x(), {.n = 1});
    case U::erfinv: return 0.886226925452758 * (h * nd.exp(nd.square(y())));
    default: return h;  // identity
  }
}

}  // namespace

void infer_unary(UnaryKind kind, InferContext& c) {
  if (info(kind).domain == Domain::floating) c.expect_floating();
  if (info(kind).domain == Domain::number && c.dtype() == DType::boolean) {
    c.fail_dtype("needs a dtype of numbers, got bool; use cast");
  }
  c.set_output(c.shape(0), c.dtype());
}

void grad_unary(UnaryKind kind, GradContext& g) {
  if (g.wants(0)) g.set(0, unary_gradient(kind, g));
}

FusedForms fused_unary(UnaryKind kind, const RegisterKernels& k) {
  FusedForms forms{{.one = k.unary[size_t(kind)]}, unary_kernels(kind).float32};
  forms.copies = kind == UnaryKind::identity || kind == UnaryKind::stop_gradient;
  return forms;
}

FusedActivation unary_epilogue(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::relu: return FusedActivation::relu;
    case UnaryKind::sigmoid: return FusedActivation::sigmoid;
    case UnaryKind::tanh: return FusedActivation::tanh;
    default: return FusedActivation::none;
  }
}

void run_unary(UnaryKind kind, KernelContext& c) { run_pointwise(unary_kernels(kind), nullptr, c); }

void infer_unary_backward(InferContext& c) {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_shape(1, c.shape(0));
  c.set_output(c.shape(0), c.dtype());
}

void grad_unary_backward(UnaryBackwardKind kind, GradContext& g) {
  const NDArray &g2 = g.head(), &head = g.input(0), &saved = g.input(1);
  if (g.wants(0)) {
    switch (kind) {
      case UnaryBackwardKind::relu: g.set(0, nd._backward_relu(g2, saved)); break;
      case UnaryBackwardKind::sigmoid: g.set(0, nd._backward_sigmoid(g2, saved)); break;
      case UnaryBackwardKind::tanh: g.set(0, nd._backward_tanh(g2, saved)); break;
      case UnaryBackwardKind::gelu: g.set(0, nd._backward_gelu(g2, saved)); break;
    }
  }
  if (g.wants(1) && kind != UnaryBackwardKind::relu) {
    const NDArray t = g2 * head;
    switch (kind) {
      case UnaryBackwardKind::sigmoid: g.set(1, t * (1.0 - 2.0 * saved)); break;
      case UnaryBackwardKind::tanh: g.set(1, -2.0 * (t * saved)); break;
      default: {  // gelu'' = phi(x) (2 - x^2)
        const NDArray s = nd.square(saved);
        g.set(1, 0.3989422804014327 * (t * nd.exp(-0.5 * s) * (2.0 - s)));
      }
    }
  }
}

static FusedForms fused_unary_backward(UnaryBackwardKind kind, const RegisterKernels& k) {
  return {k.unary_backward[size_t(kind)], unary_backward_kernels(kind).float32};
}

void run_unary_backward(UnaryBackwardKind kind, KernelContext& c) {
  run_pointwise(unary_backward_kernels(kind), nullptr, c);
}

}  // namespace kaon::ops

namespace kaon {

using namespace ops;

template <UnaryKind K>
constinit const OpDef op::Unary<K>::def = make_op_def<op::Unary<K>>();
template <UnaryKind K>
FusedForms op::Unary<K>::fused_forms(const RegisterKernels& k) const {
  return fused_unary(K, k);
}
template <UnaryKind K>
std::optional<CudaExpression> op::Unary<K>::cuda_expression(const ExpressionArgs& a) const {
  return unary_expression(K, a);
}

#define KAON_UNARY(kind) template struct op::Unary<UnaryKind::kind>;
// clang-format off
KAON_UNARY(relu) KAON_UNARY(sigmoid) KAON_UNARY(tanh) KAON_UNARY(exp) KAON_UNARY(log) KAON_UNARY(sqrt)
KAON_UNARY(rsqrt) KAON_UNARY(square) KAON_UNARY(abs) KAON_UNARY(sign) KAON_UNARY(negative) KAON_UNARY(reciprocal)
KAON_UNARY(erf) KAON_UNARY(log1p) KAON_UNARY(expm1) KAON_UNARY(log2) KAON_UNARY(log10) KAON_UNARY(sin) KAON_UNARY(cos)
KAON_UNARY(tan) KAON_UNARY(arcsin) KAON_UNARY(arccos) KAON_UNARY(arctan) KAON_UNARY(sinh) KAON_UNARY(cosh)
KAON_UNARY(arcsinh) KAON_UNARY(arccosh) KAON_UNARY(arctanh) KAON_UNARY(floor) KAON_UNARY(ceil) KAON_UNARY(round)
KAON_UNARY(rint) KAON_UNARY(trunc) KAON_UNARY(fix) KAON_UNARY(cbrt) KAON_UNARY(rcbrt) KAON_UNARY(softsign)
KAON_UNARY(softrelu) KAON_UNARY(gelu) KAON_UNARY(logical_not) KAON_UNARY(degrees) KAON_UNARY(radians)
KAON_UNARY(gamma) KAON_UNARY(gammaln) KAON_UNARY(digamma) KAON_UNARY(erfinv) KAON_UNARY(identity) KAON_UNARY(stop_gradient)
KAON_UNARY(zeros_like) KAON_UNARY(ones_like)
// clang-format on
#undef KAON_UNARY

                                        template <UnaryBackwardKind K>
                                        constinit const OpDef op::UnaryBackward<K>::def =
                                            make_op_def<op::UnaryBackward<K>>();
template <UnaryBackwardKind K>
FusedForms op::UnaryBackward<K>::fused_forms(const RegisterKernels& k) const {
  return fused_unary_backward(K, k);
}
template <UnaryBackwardKind K>
std::optional<CudaExpression> op::UnaryBackward<K>::cuda_expression(const ExpressionArgs& a) const {
  return unary_backward_expression(K, a);
}

#define KAON_UNARY_BACKWARD(kind) template struct op::UnaryBackward<UnaryBackwardKind::kind>;
// clang-format off
KAON_UNARY_BACKWARD(relu) KAON_UNARY_BACKWARD(sigmoid) KAON_UNARY_BACKWARD(tanh) KAON_UNARY_BACKWARD(gelu)
// clang-format on
#undef KAON_UNARY_BACKWARD

}  // namespace kaon
