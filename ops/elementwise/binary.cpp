#include "kaon/ops/elementwise/elementwise.h"

#include <limits>

#include "kaon/ops/elementwise/kernels/binary_kernels.h"
#include "kaon/ops/elementwise/kernels/broadcast.h"
#include "kaon/ops/elementwise/kernels/real_gradient.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/movement/kernels/shapes.h"
#include "kaon/ops/movement/movement.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon::ops {

namespace {

// The gradient of the left (i = 0) or right input, in the output's shape.
NDArray binary_gradient(BinaryKind kind, int i, GradContext& g) {
  using B = BinaryKind;
  const NDArray& h = g.head();
  auto a = [&]() -> const NDArray& { return g.input(0); };
  auto b = [&]() -> const NDArray& { return g.input(1); };
  auto y = [&]() -> const NDArray& { return g.output(); };
  switch (kind) {
    case B::sub: return i == 0 ? h : nd.negative(h);
    case B::mul: return h * (i == 0 ? b() : a());
    case B::div: return i == 0 ? h / b() : nd.negative(h / b() * (a() / b()));
    case B::mod:  // of whole numbers it is flat, as in MXNet
      if (!is_floating(h.dtype())) return nd.zeros_like(h);
      return i == 0 ? h : nd.negative(h * nd.floor(a() / b()));
    case B::power: {
      if (i == 0) {  // a^0 is flat also where a^-1 is infinite or NaN
        const NDArray factor = nd.power(a(), b() - 1.0), slope = b() * factor;
        const NDArray is_finite = nd.abs(factor) < std::numeric_limits<double>::infinity();
        return h * nd.where((b() != 0) + is_finite, slope, nd.zeros_like(slope));
      }
      // y log a tends to 0 with y; and 0^b is flat from b = 0 on
      const NDArray slope = y() * nd.log(a());
      return h * nd.where((y() != 0) * ((a() != 0) + (b() < 0)), slope, nd.zeros_like(slope));
    }
    case B::maximum: return h * (i == 0 ? a() >= b() : a() < b());
    case B::minimum: return h * (i == 0 ? a() <= b() : a() > b());
    case B::hypot: return h * ((i == 0 ? a() : b()) / y());
    case B::logaddexp: {  // the difference of equal infinities is NaN: taken as 0, as that of other equal numbers
      const NDArray gap = i == 0 ? a() - b() : b() - a();
      const NDArray infinite = (a() == b()) > (gap == 0);
      return h * nd.sigmoid(nd.where(infinite, nd.zeros_like(gap), gap));
    }
    default: return h;  // add
  }
}

}  // namespace

void infer_binary(BinaryKind kind, InferContext& c) {
  c.expect_same_dtype();
  if (is_real(kind)) c.expect_floating();
  if (c.dtype() == DType::boolean && !is_logical(kind)) {
    c.fail_dtype("needs a dtype of numbers, got bool; use cast");
  }
  c.set_output(broadcast_shapes(c.shape(0), c.shape(1), c.op()), c.dtype());
}

void grad_binary(BinaryKind kind, GradContext& g) {
  using B = BinaryKind;
  const bool has_quotients = kind == B::div || kind == B::power || kind == B::hypot;
  const bool is_real = !is_floating(g.head().dtype()) && has_quotients;
  RealGradient real(g, [kind](auto&& input) {
    return kind == B::power ? nd.power(input(0), input(1)) : nd.broadcast_hypot(input(0), input(1));
  });
  for (int i = 0; i < 2; ++i) {
    if (!g.wants(i)) continue;
    const NDArray gradient = is_real ? real.cut(binary_gradient(kind, i, real)) : binary_gradient(kind, i, g);
    g.set(i, sum_to_shape(gradient, g.input_like(i).shape()));
  }
}

static FusedForms fused_binary(BinaryKind kind, const RegisterKernels& k) {
  return {k.binary[size_t(kind)], binary_kernels(kind).float32, true};
}

void run_binary(BinaryKind kind, KernelContext& c) {
  run_broadcast(binary_kernels(kind), nullptr, c, number_tiles(kind));
}

}  // namespace kaon::ops

namespace kaon {

using namespace ops;

template <BinaryKind K>
constinit const OpDef op::Binary<K>::def = make_op_def<op::Binary<K>>();
template <BinaryKind K>
FusedForms op::Binary<K>::fused_forms(const RegisterKernels& k) const {
  return fused_binary(K, k);
}
template <BinaryKind K>
std::optional<CudaExpression> op::Binary<K>::cuda_expression(const ExpressionArgs& a) const {
  return binary_expression(K, a.type(), a.in[0], a.in[1]);
}

#define KAON_BINARY(kind) template struct op::Binary<BinaryKind::kind>;
// clang-format off
KAON_BINARY(add) KAON_BINARY(sub) KAON_BINARY(mul) KAON_BINARY(div) KAON_BINARY(mod) KAON_BINARY(power)
KAON_BINARY(maximum) KAON_BINARY(minimum) KAON_BINARY(hypot) KAON_BINARY(logaddexp) KAON_BINARY(equal)
KAON_BINARY(not_equal) KAON_BINARY(greater) KAON_BINARY(greater_equal) KAON_BINARY(lesser) KAON_BINARY(lesser_equal) KAON_BINARY(logical_and)
KAON_BINARY(logical_or) KAON_BINARY(logical_xor)
// clang-format on
#undef KAON_BINARY

}  // namespace kaon
