#include "kaon/ops/elementwise/elementwise.h"

#include <fmt/format.h>

#include <cmath>

#include "kaon/ops/elementwise/kernels/binary_kernels.h"
#include "kaon/ops/elementwise/kernels/real_gradient.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/math/scalar_math.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon::ops {

void infer_scalar(ScalarKind kind, double scalar, InferContext& c) {
  if (kind == ScalarKind::smooth_l1) {
    c.expect_floating();
    if (!(scalar > 0)) c.fail_value(fmt::format("scalar must be positive, got {}", scalar));
  }
  if (!is_floating(c.dtype()) && !is_logical(info(kind).kind)) {
    if (c.dtype() == DType::boolean) c.fail_dtype("needs a dtype of numbers, got bool; use cast");
    if (scalar != std::floor(scalar) || std::isinf(scalar)) {  // NaN too
      c.fail_dtype(fmt::format("{} is no value of dtype {}; use cast", scalar, name_of(c.dtype())));
    }
    // sums and products wrap, so the number may be beyond the dtype's range; bounds are clamped to it
    using B = BinaryKind;
    const B k = info(kind).kind;
    const bool wraps = k == B::add || k == B::sub || k == B::mul;
    const DType holds = wraps && (scalar < 0 || c.dtype() != DType::uint64) ? DType::int64 : c.dtype();
    if (k != B::maximum && k != B::minimum) expect_holds(c, "scalar", scalar, holds);
  }
  c.set_output(c.shape(0), c.dtype());
}

static void set_gradient(ScalarKind kind, double s, GradContext& g) {
  using K = ScalarKind;
  const NDArray& h = g.head();
  auto x = [&]() -> const NDArray& { return g.input(0); };
  auto y = [&]() -> const NDArray& { return g.output(); };
  switch (kind) {
    case K::rminus: return g.set(0, nd.negative(h));
    case K::mul: return g.set(0, h * s);
    case K::div: return g.set(0, h / s);
    case K::rdiv:  // without x * x, which overflows, and underflows near 0
      return g.set(0, nd.negative(h / x() * y()));
    case K::mod: return g.set(0, is_floating(h.dtype()) ? h : nd.zeros_like(h));  // as of two arrays
    case K::rmod: return g.set(0, is_floating(h.dtype()) ? nd.negative(h * nd.floor(s / x())) : nd.zeros_like(h));
    case K::power:  // x^0 is flat at 0 too, where x^-1 is infinite
      return g.set(0, s == 0 ? nd.zeros_like(h) : s * (h * nd.power(x(), s - 1)));
    case K::rpower:  // and 0^x from x = 0 on, where log 0 is infinite
      if (s == 0) return g.set(0, nd.where(x() < 0, h * std::log(s), nd.zeros_like(h)));
      return g.set(0, std::log(s) * (h * y()));
    case K::maximum: return g.set(0, h * (x() >= s));
    case K::minimum: return g.set(0, h * (x() <= s));
    case K::hypot: return g.set(0, h * (x() / y()));
    case K::smooth_l1: return g.set(0, h * nd.clip(x() * (s * s), -1, 1));
    default: return g.set(0, h);  // plus, minus
  }
}

void grad_scalar(ScalarKind kind, double s, GradContext& g) {
  using K = ScalarKind;
  if (!g.wants(0)) return;
  const bool is_integer = !is_floating(g.head().dtype());
  if (!is_integer || (kind != K::rdiv && kind != K::rpower && kind != K::hypot)) return set_gradient(kind, s, g);
  RealGradient real(g, [&](auto&& input) {
    const NDArray& x = input(0);
    return kind == K::rdiv     ? s / x
           : kind == K::rpower ? nd._rpower_scalar(x, {.scalar = s})
                               : nd._hypot_scalar(x, {.scalar = s});
  });
  set_gradient(kind, s, real);
}

static FusedForms fused_scalar(ScalarKind kind, double scalar, const RegisterKernels& k) {
  const float number = float(scalar);
  if (kind == ScalarKind::power && number == 2.0f) return fused_unary(UnaryKind::square, k);
  if (kind == ScalarKind::power && number == 0.5f) return {{.one = k.root}};
  FusedForms forms{{.one = k.scalar[size_t(kind)]}, scalar_kernels(kind).float32};
  forms.numbers = {number};
  return forms;
}

static std::string scalar_expression(ScalarKind kind, double scalar, const ExpressionArgs& a) {
  const std::string& x = a.in[0];
  const BinaryKind function = info(kind).kind;
  return dispatch_all("fuse", a.dtype, [&]<class Element>() -> std::string {
    using T = accumulate_t<Element>;
    constexpr bool is_real = std::is_floating_point_v<T>;
    if (kind == ScalarKind::smooth_l1) {
      return fmt::format("smooth_l1_value<{}>({}, {})", a.type(), x, cuda_literal(T(scalar)));
    }
    if (is_logical(function) && !is_real) {
      const ComparedNumber<T> number(scalar);
      const char* integer = cuda_value_type(dtype_of<typename ComparedNumber<T>::Integer>);
      const std::string is_true =
          number.is_integer
              ? binary_expression(function, integer, fmt::format("{}({})", integer, x), cuda_literal(number.integer))
              : binary_expression(function, "double", fmt::format("double({})", x), cuda_literal(number.real));
      return fmt::format("{}({} != 0)", a.type(), is_true);
    }
    if (kind == ScalarKind::power && is_real && scalar == 2) return binary_expression(BinaryKind::mul, a.type(), x, x);
    if (kind == ScalarKind::power && is_real && scalar == 0.5) return fmt::format("root_value({})", x);
    const std::string number = cuda_literal(scalar_operand<T>(function, scalar));
    return info(kind).reversed ? binary_expression(function, a.type(), number, x)
                               : binary_expression(function, a.type(), x, number);
  });
}

void run_scalar(ScalarKind kind, const void* op, KernelContext& c) { run_pointwise(scalar_kernels(kind), op, c); }

}  // namespace kaon::ops

namespace kaon {

using namespace ops;

template <ScalarKind K>
constinit const OpDef op::Scalar<K>::def = make_op_def<op::Scalar<K>>();
template <ScalarKind K>
FusedForms op::Scalar<K>::fused_forms(const RegisterKernels& k) const {
  return fused_scalar(K, scalar, k);
}
template <ScalarKind K>
std::optional<CudaExpression> op::Scalar<K>::cuda_expression(const ExpressionArgs& a) const {
  return scalar_expression(K, scalar, a);
}

#define KAON_SCALAR(kind) template struct op::Scalar<ScalarKind::kind>;
// clang-format off
KAON_SCALAR(plus) KAON_SCALAR(minus) KAON_SCALAR(rminus) KAON_SCALAR(mul) KAON_SCALAR(div) KAON_SCALAR(rdiv)
KAON_SCALAR(mod) KAON_SCALAR(rmod) KAON_SCALAR(power) KAON_SCALAR(rpower) KAON_SCALAR(maximum) KAON_SCALAR(minimum)
KAON_SCALAR(hypot) KAON_SCALAR(equal) KAON_SCALAR(not_equal) KAON_SCALAR(greater) KAON_SCALAR(greater_equal)
KAON_SCALAR(lesser) KAON_SCALAR(lesser_equal) KAON_SCALAR(logical_and) KAON_SCALAR(logical_or)
KAON_SCALAR(logical_xor)
// clang-format on
#undef KAON_SCALAR

                    constinit const OpDef op::SmoothL1::def = make_op_def<op::SmoothL1>();
FusedForms op::SmoothL1::fused_forms(const RegisterKernels& k) const {
  return fused_scalar(ScalarKind::smooth_l1, scalar, k);
}
std::optional<CudaExpression> op::SmoothL1::cuda_expression(const ExpressionArgs& a) const {
  return scalar_expression(ScalarKind::smooth_l1, scalar, a);
}

}  // namespace kaon
