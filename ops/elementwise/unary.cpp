#include "kaon/ops/elementwise/unary.h"

#include "kaon/ops/elementwise/kernels/unary_kernels.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/epilogue.h"

namespace kaon {
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

FusedForms fused_unary_backward(UnaryBackwardKind kind, const RegisterKernels& k) {
  return {k.unary_backward[size_t(kind)], unary_backward_kernels(kind).float32};
}

void run_unary_backward(UnaryBackwardKind kind, KernelContext& c) {
  run_pointwise(unary_backward_kernels(kind), nullptr, c);
}

}  // namespace kaon
