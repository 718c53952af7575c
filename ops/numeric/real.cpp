// Functions of two reals; floor_divide.
#include <fmt/format.h>

#include "kaon/ops/elementwise/kernels/broadcast.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/movement/kernels/shapes.h"
#include "kaon/ops/numeric/kernels/real_kernels.h"
#include "kaon/ops/numeric/numeric.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon::ops {

void infer_real(RealKind kind, InferContext& c) {
  c.expect_same_dtype();
  if (!takes_integers(kind)) c.expect_floating();
  if (c.dtype() == DType::boolean) c.fail_dtype("needs a dtype of numbers, got bool; use cast");
  c.set_output(broadcast_shapes(c.shape(0), c.shape(1), c.op()), c.dtype());
}

namespace {

// Of the left (i = 0) or right input, in the output's shape.
NDArray real_gradient(RealKind kind, int i, GradContext& g) {
  const NDArray &h = g.head(), &a = g.input(0), &b = g.input(1), &y = g.output();
  switch (kind) {
    case RealKind::arctan2: {  // without overflow of the squares; 0 at 0
      const NDArray hypotenuse = nd.hypot(a, b);
      const NDArray length = nd.where(hypotenuse == 0, nd.ones_like(hypotenuse), hypotenuse);
      return i == 0 ? h * (b / length / length) : nd.negative(h * (a / length / length));
    }
    case RealKind::copysign: return i == 0 ? h * nd.sign(a) * nd.sign(y) : nd.zeros_like(h);
    case RealKind::fmod: return i == 0 ? h : nd.negative(h * nd.trunc(a / b));
    // of equal numbers the first takes the whole gradient
    case RealKind::fmax:
    case RealKind::fmin: {
      const NDArray first = nd.maximum(b != b, kind == RealKind::fmax ? a >= b : a <= b);
      return h * (i == 0 ? first : 1.0 - first);
    }
    default: {  // ldexp
      const NDArray scale = nd.power(2.0, b);
      return h * (i == 0 ? scale : 0.69314718055994531 * (a * scale));
    }
  }
}

}  // namespace

void grad_real(RealKind kind, GradContext& g) {
  for (int i = 0; i < 2; ++i) {
    if (g.wants(i)) g.set(i, sum_to_shape(real_gradient(kind, i, g), g.input_like(i).shape()));
  }
}

void run_real(RealKind kind, KernelContext& c) { run_broadcast(real_kernels(kind), nullptr, c); }

namespace {

std::string real_expression(RealKind kind, const char* type, std::string_view a, std::string_view b) {
  switch (kind) {
    case RealKind::arctan2: return fmt::format("{}(::atan2({}, {}))", type, a, b);
    case RealKind::copysign: return fmt::format("{}(::copysign({}, {}))", type, a, b);
    case RealKind::fmod: return fmt::format("{}(::fmod({}, {}))", type, a, b);
    case RealKind::fmax: return fmt::format("({1} != {1} || {0} >= {1} ? {0} : {1})", a, b);
    case RealKind::fmin: return fmt::format("({1} != {1} || {0} <= {1} ? {0} : {1})", a, b);
    default: return fmt::format("{}(double({}) * ::exp2(double({})))", type, a, b);
  }
}

}  // namespace

}  // namespace kaon::ops

namespace kaon {

using namespace ops;

template <RealKind K>
constinit const OpDef op::Real<K>::def = make_op_def<op::Real<K>>();
template <RealKind K>
FusedForms op::Real<K>::fused_forms(const RegisterKernels&) const {
  return {{}, real_kernels(K).float32, true};
}
template <RealKind K>
std::optional<CudaExpression> op::Real<K>::cuda_expression(const ExpressionArgs& a) const {
  if (K == RealKind::fmod && !is_floating(a.dtype)) {  // 0 by zero, and no trap of the smallest number by -1
    const std::string_view x = a.in[0], y = a.in[1];
    if (is_unsigned(a.dtype)) return fmt::format("({1} == 0 ? {2}(0) : {2}({0} % {1}))", x, y, a.type());
    return fmt::format("({1} == 0 || {1} == -1 ? {2}(0) : {2}({0} % {1}))", x, y, a.type());
  }
  return real_expression(K, a.type(), a.in[0], a.in[1]);
}

template <RealKind K, bool Reversed>
constinit const OpDef op::RealScalar<K, Reversed>::def = make_op_def<op::RealScalar<K, Reversed>>();
template <RealKind K, bool Reversed>
void op::RealScalar<K, Reversed>::infer(InferContext& c) const {
  c.expect_floating();
  c.set_output(c.shape(0), c.dtype());
}
template <RealKind K, bool Reversed>
void op::RealScalar<K, Reversed>::compose(ComposeContext& c) const {
  const NDArray &x = c.input(), number = nd.full({1}, scalar, {.dtype = x.dtype()});
  const NDArray y = Reversed ? nd.call(Real<K>{}, number, x) : nd.call(Real<K>{}, x, number);
  c.set(nd._reshape_to(y, {.shape = c.output().shape}));
}

template struct op::Real<RealKind::arctan2>;
template struct op::Real<RealKind::copysign>;
template struct op::Real<RealKind::fmod>;
template struct op::Real<RealKind::fmax>;
template struct op::Real<RealKind::fmin>;
template struct op::Real<RealKind::ldexp>;
template struct op::RealScalar<RealKind::arctan2, false>;
template struct op::RealScalar<RealKind::arctan2, true>;
template struct op::RealScalar<RealKind::copysign, false>;
template struct op::RealScalar<RealKind::copysign, true>;
template struct op::RealScalar<RealKind::ldexp, false>;
template struct op::RealScalar<RealKind::ldexp, true>;

// --- true_divide by a number; of two arrays in ops/numpy/promoting.cpp

template <bool Reversed>
constinit const OpDef op::TrueDivideByScalar<Reversed>::def = make_op_def<op::TrueDivideByScalar<Reversed>>();

namespace {

NDArray as_real(const NDArray& x) { return is_floating(x.dtype()) ? x : nd.cast(x, DType::float32); }
DType real_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::float32; }

}  // namespace

template <bool Reversed>
void op::TrueDivideByScalar<Reversed>::infer(InferContext& c) const {
  c.set_output(c.shape(0), real_dtype(c.dtype()));
}

template <bool Reversed>
void op::TrueDivideByScalar<Reversed>::compose(ComposeContext& c) const {
  const NDArray x = as_real(c.input());
  c.set(Reversed ? scalar / x : x / scalar);
}

template struct op::TrueDivideByScalar<false>;
template struct op::TrueDivideByScalar<true>;

// --- floor_divide

constinit const OpDef op::FloorDivide::def = make_op_def<op::FloorDivide>();

void op::FloorDivide::infer(InferContext& c) const {
  c.expect_same_dtype();
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
  c.set_output(broadcast_shapes(c.shape(0), c.shape(1), c.op()), c.dtype());
}

void op::FloorDivide::compose(ComposeContext& c) const {
  const NDArray &a = c.input(0), &b = c.input(1);
  if (!is_floating(a.dtype())) return c.set((a - a % b) / b);
  const NDArray rest = nd.stop_gradient(nd.fmod(a, b));
  const NDArray below = nd.not_equal(nd.copysign(rest, b), rest);  // 0 is equal to -0
  c.set(nd.broadcast_where(b == 0, a / b, nd.rint((a - rest) / b) - below));
}

}  // namespace kaon
