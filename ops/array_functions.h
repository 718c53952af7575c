// ArrayFunctions<A>: how operators are called, and the operators of any program: elementwise, reductions, shapes,
// indexing, linear algebra. A part of the list in functions.h.
#pragma once

#include <algorithm>
#include <concepts>
#include <optional>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/block_pool.h"
#include "kaon/ops/all_ops.h"
#include "kaon/ops/arg.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {

namespace ops {
KAON_API int num_visible_outputs(const OpDef& def, const void* attrs);  // at least 0
KAON_API NDArray boolean_mask(const NDArray& data, const NDArray& index, int axis, const std::source_location& site);
// A TraceError of a function the size of whose result depends on values.
[[noreturn]] KAON_API void refuse_in_trace(const char* function);

// Calls operators on arrays of kind A.
template <class A>
class OperatorCalls {
 public:
  // Calls any operator with one visible output, given all its inputs; your own too: F.call(MyOp{.alpha = 2}, x, y).
  template <class Op, class... Ins>
  A call(const Op& op, const In<A>& first, const Ins&... rest) const {
    const A* inputs[] = {&first.array(), &input_array(rest)...};
    A out;
    A::apply(ops::def_of<Op>(), &op, inputs, std::span<A>(&out, 1), first.site(), name_);
    return out;
  }
  // The same for an operator that takes a list of arrays: F.call(MyConcat{.num_args = 2}, std::vector{x, y}).
  template <class Op>
  A call(const Op& op, std::span<const A> arrays,
         const std::source_location& site = std::source_location::current()) const {
    const auto inputs = addresses(arrays);
    A out;
    A::apply(ops::def_of<Op>(), &op, inputs, std::span<A>(&out, 1), site, name_);
    return out;
  }
  // All visible outputs of any operator: F.call_all(MyOp{}, x, y)[1].
  template <class Op, class... Ins>
  std::vector<A> call_all(const Op& op, const In<A>& first, const Ins&... rest) const {
    const A* inputs[] = {&first.array(), &input_array(rest)...};
    std::vector<A> outs(size_t(ops::num_visible_outputs(ops::def_of<Op>(), &op)));
    A::apply(ops::def_of<Op>(), &op, inputs, outs, first.site(), name_);
    return outs;
  }
  template <class Op>
  std::vector<A> call_all(const Op& op, std::span<const A> arrays,
                          const std::source_location& site = std::source_location::current()) const {
    const auto inputs = addresses(arrays);
    std::vector<A> outs(size_t(ops::num_visible_outputs(ops::def_of<Op>(), &op)));
    A::apply(ops::def_of<Op>(), &op, inputs, outs, site, name_);
    return outs;
  }

 protected:
  static const A& input_array(const In<A>& input) { return input.array(); }
  template <class T>
  static const A& input_array(const T& input) {
    static_assert(std::derived_from<T, A>, "operators take arrays of one kind: NDArrays by nd, Symbols by sym");
    return input;
  }
  template <class Op, class... Ins>  // with n visible outputs
  std::vector<A> call_many(int n, const Op& op, const In<A>& first, const Ins&... rest) const {
    const A* inputs[] = {&first.array(), &rest.array()...};
    std::vector<A> outs(size_t(std::max(n, 0)));  // a wrong number is refused below, by the operator's name
    A::apply(Op::def, &op, inputs, outs, first.site(), name_);
    return outs;
  }
  template <class Op>
  A call_list(const Op& op, std::span<const A* const> inputs, const std::source_location& site) const {
    A out;
    A::apply(Op::def, &op, inputs, std::span<A>(&out, 1), site, name_);
    return out;
  }
  template <class Op>  // with n visible outputs
  std::vector<A> call_list_many(int n, const Op& op, std::span<const A* const> inputs,
                                const std::source_location& site) const {
    std::vector<A> outs(size_t(std::max(n, 0)));
    A::apply(Op::def, &op, inputs, outs, site, name_);
    return outs;
  }
  static engine::PooledVector<const A*> addresses(std::span<const A> arrays) {
    engine::PooledVector<const A*> all;
    all.reserve(arrays.size());
    for (const A& a : arrays) all.push_back(&a);
    return all;
  }
  template <class Op>
  A call_array_list(const Op& op, std::span<const A> arrays, const std::source_location& site) const {
    return call_list(op, addresses(arrays), site);
  }
  template <class Op>  // with n visible outputs
  std::vector<A> call_list_many(int n, const Op& op, std::span<const A> arrays,
                                const std::source_location& site) const {
    const auto inputs = addresses(arrays);
    std::vector<A> outs(size_t(std::max(n, 0)));
    A::apply(Op::def, &op, inputs, outs, site, name_);
    return outs;
  }

  std::string_view name_;  // of the next node in a Symbol
};
}  // namespace ops

template <class A>
class ArrayFunctions : public ops::OperatorCalls<A> {
  using Calls = ops::OperatorCalls<A>;

 public:
  using Calls::call;
  // clang-format off
  // --- elementwise, one array. Floating dtypes only (else TypeError) where no others are named
  A relu(const In<A>& x) const { return call(op::Relu{}, x); }        // max(x, 0); integers too
  A sigmoid(const In<A>& x) const { return call(op::Sigmoid{}, x); }  // 1 / (1 + e^-x)
  A tanh(const In<A>& x) const { return call(op::Tanh{}, x); }  // hyperbolic tangent
  A exp(const In<A>& x) const { return call(op::Exp{}, x); }  // e^x
  A log(const In<A>& x) const { return call(op::Log{}, x); }  // natural logarithm; -inf at 0, NaN below
  A sqrt(const In<A>& x) const { return call(op::Sqrt{}, x); }  // square root; NaN below 0
  A rsqrt(const In<A>& x) const { return call(op::Rsqrt{}, x); }            // 1 / sqrt(x)
  A square(const In<A>& x) const { return call(op::Square{}, x); }          // x^2; integers too
  A abs(const In<A>& x) const { return call(op::Abs{}, x); }                // |x|; integers too
  A sign(const In<A>& x) const { return call(op::Sign{}, x); }              // -1, 0 or 1, NaN stays; integers too
  A negative(const In<A>& x) const { return call(op::Negative{}, x); }      // -x; integers too
  A reciprocal(const In<A>& x) const { return call(op::Reciprocal{}, x); }  // 1 / x
  A erf(const In<A>& x) const { return call(op::Erf{}, x); }                // the error function
  A log1p(const In<A>& x) const { return call(op::Log1p{}, x); }            // log(1 + x)
  A expm1(const In<A>& x) const { return call(op::Expm1{}, x); }            // e^x - 1
  A log2(const In<A>& x) const { return call(op::Log2{}, x); }  // logarithm of base 2
  A log10(const In<A>& x) const { return call(op::Log10{}, x); }  // logarithm of base 10
  A sin(const In<A>& x) const { return call(op::Sin{}, x); }  // sine of radians
  A cos(const In<A>& x) const { return call(op::Cos{}, x); }  // cosine of radians
  A tan(const In<A>& x) const { return call(op::Tan{}, x); }  // tangent of radians
  A arcsin(const In<A>& x) const { return call(op::Arcsin{}, x); }  // inverse of sin, in radians; NaN outside [-1, 1]
  A arccos(const In<A>& x) const { return call(op::Arccos{}, x); }  // inverse of cos, in radians; NaN outside [-1, 1]
  A arctan(const In<A>& x) const { return call(op::Arctan{}, x); }  // inverse of tan, in radians
  A sinh(const In<A>& x) const { return call(op::Sinh{}, x); }  // hyperbolic sine
  A cosh(const In<A>& x) const { return call(op::Cosh{}, x); }  // hyperbolic cosine
  A arcsinh(const In<A>& x) const { return call(op::Arcsinh{}, x); }  // inverse of sinh
  A arccosh(const In<A>& x) const { return call(op::Arccosh{}, x); }  // inverse of cosh; NaN below 1
  A arctanh(const In<A>& x) const { return call(op::Arctanh{}, x); }  // inverse of tanh; NaN outside [-1, 1]
  A floor(const In<A>& x) const { return call(op::Floor{}, x); }        // largest integer <= x; these six take integers too
  A ceil(const In<A>& x) const { return call(op::Ceil{}, x); }          // smallest integer >= x
  A round(const In<A>& x) const { return call(op::Round{}, x); }        // nearest integer, halves away from zero
  A rint(const In<A>& x) const { return call(op::Rint{}, x); }          // nearest integer, halves downwards
  A trunc(const In<A>& x) const { return call(op::Trunc{}, x); }        // towards zero
  A fix(const In<A>& x) const { return call(op::Fix{}, x); }            // towards zero
  A cbrt(const In<A>& x) const { return call(op::Cbrt{}, x); }          // x^(1/3)
  A rcbrt(const In<A>& x) const { return call(op::Rcbrt{}, x); }        // x^(-1/3)
  A softsign(const In<A>& x) const { return call(op::Softsign{}, x); }  // x / (1 + |x|)
  A softrelu(const In<A>& x) const { return call(op::SoftRelu{}, x); }  // log(1 + e^x)
  A gelu(const In<A>& x) const { return call(op::Gelu{}, x); }          // x/2 (1 + erf(x / sqrt 2))
  A logical_not(const In<A>& x) const { return call(op::LogicalNot{}, x); }  // 1 where x == 0, else 0; any dtype
  A degrees(const In<A>& x) const { return call(op::Degrees{}, x); }         // 180/pi x
  A radians(const In<A>& x) const { return call(op::Radians{}, x); }         // pi/180 x
  A gamma(const In<A>& x) const { return call(op::Gamma{}, x); }             // the gamma function
  A gammaln(const In<A>& x) const { return call(op::GammaLn{}, x); }         // log |gamma(x)|
  A digamma(const In<A>& x) const { return call(op::Digamma{}, x); }  // derivative of log |gamma(x)|
  A polygamma(const In<A>& x, const op::Polygamma& op = {}) const { return call(op, x); }
  A _copy(const In<A>& x) const { return call(op::Copy{}, x); }                 // x, in memory of its own; any dtype
  A identity(const In<A>& x) const { return call(op::Copy{}, x); }              // as _copy
  A BlockGrad(const In<A>& x) const { return call(op::BlockGrad{}, x); }  // x, with a gradient of 0; any dtype
  A stop_gradient(const In<A>& x) const { return BlockGrad(x); }            // as BlockGrad
  A zeros_like(const In<A>& x) const { return call(op::ZerosLike{}, x); }  // zeros of x's shape and dtype, any
  A ones_like(const In<A>& x) const { return call(op::OnesLike{}, x); }  // ones of x's shape and dtype, any
  A cast(const In<A>& x, DType dtype) const { return call(op::Cast{.dtype = dtype}, x); }  // converted
  A clip(const In<A>& x, double a_min, double a_max) const { return call(op::Clip{.a_min = a_min, .a_max = a_max}, x); }
  A erfinv(const In<A>& x) const { return call(op::Erfinv{}, x); }  // inverse of erf; NaN outside [-1, 1]
  A quadratic(const In<A>& x, const op::Quadratic& op) const { return call(op, x); }  // a x^2 + b x + c
  A round_ste(const In<A>& x) const { return call(op::RoundSte{}, x); }  // round, sign: with the gradient of the identity
  A sign_ste(const In<A>& x) const { return call(op::SignSte{}, x); }
  A gradientmultiplier(const In<A>& x, double scalar = 1) const { return call(op::GradientMultiplier{.scalar = scalar}, x); }  // x, its gradient times scalar
  A make_loss(const In<A>& x) const { return call(op::UnitLoss{}, x); }  // x, with a gradient of ones whatever arrives
  A amp_cast(const In<A>& x, DType dtype) const { return call(op::AmpCast{.dtype = dtype}, x); }  // 16- and 32-bit floats converted
  std::vector<A> amp_multicast(std::span<const A> arrays, op::AmpMulticast op = {}, const std::source_location& site = std::source_location::current()) const {  // in their widest dtype
    return op.num_outputs = int(arrays.size()), call_list_many(op.num_outputs, op, arrays, site);
  }
  A hard_sigmoid(const In<A>& x, const op::HardSigmoid& op = {}) const { return call(op, x); }
  A smooth_l1(const In<A>& x, double scalar = 1) const { return call(op::SmoothL1{.scalar = scalar}, x); }  // Huber's loss
  A _backward_relu(const In<A>& head, const In<A>& output) const { return call(op::BackwardRelu{}, head, output); }
  A _backward_sigmoid(const In<A>& head, const In<A>& output) const { return call(op::BackwardSigmoid{}, head, output); }
  A _backward_tanh(const In<A>& head, const In<A>& output) const { return call(op::BackwardTanh{}, head, output); }
  A _backward_gelu(const In<A>& head, const In<A>& data) const { return call(op::BackwardGelu{}, head, data); }
  A _backward_clip(const In<A>& head, const In<A>& data, const op::ClipBackward& op) const { return call(op, head, data); }
  // --- elementwise, two arrays of one dtype (else TypeError) that broadcast (else ShapeError), arithmetic not of bool.
  // Comparisons and logic give 0 and 1 in the dtype. x mod 0 and integer x / 0 are 0; a NaN passes maximum and minimum
  A broadcast_add(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastAdd{}, lhs, rhs); }  // lhs + rhs
  A broadcast_sub(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastSub{}, lhs, rhs); }  // lhs - rhs
  A broadcast_mul(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastMul{}, lhs, rhs); }  // lhs rhs
  A broadcast_div(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastDiv{}, lhs, rhs); }  // lhs / rhs
  A broadcast_mod(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastMod{}, lhs, rhs); }  // remainder of lhs / rhs, with the sign of rhs
  A broadcast_power(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastPower{}, lhs, rhs); }  // lhs^rhs
  A broadcast_maximum(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastMaximum{}, lhs, rhs); }  // the larger
  A broadcast_minimum(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastMinimum{}, lhs, rhs); }  // the smaller
  A broadcast_hypot(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastHypot{}, lhs, rhs); }  // sqrt(lhs^2 + rhs^2)
  A logaddexp(const In<A>& lhs, const In<A>& rhs) const { return call(op::LogAddExp{}, lhs, rhs); }  // log(e^lhs + e^rhs), floating
  A broadcast_equal(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastEqual{}, lhs, rhs); }  // lhs == rhs
  A broadcast_not_equal(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastNotEqual{}, lhs, rhs); }  // lhs != rhs
  A broadcast_greater(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastGreater{}, lhs, rhs); }  // lhs > rhs
  A broadcast_greater_equal(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastGreaterEqual{}, lhs, rhs); }  // lhs >= rhs
  A broadcast_lesser(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastLesser{}, lhs, rhs); }  // lhs < rhs
  A broadcast_lesser_equal(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastLesserEqual{}, lhs, rhs); }  // lhs <= rhs
  A broadcast_logical_and(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastLogicalAnd{}, lhs, rhs); }  // lhs != 0 and rhs != 0
  A broadcast_logical_or(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastLogicalOr{}, lhs, rhs); }  // lhs != 0 or rhs != 0
  A broadcast_logical_xor(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastLogicalXor{}, lhs, rhs); }  // one of lhs != 0 and rhs != 0
  // --- elementwise, under the names that ask for equal shapes in files; here they broadcast
  A elemwise_add(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastAdd{}, lhs, rhs); }  // lhs + rhs
  A elemwise_sub(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastSub{}, lhs, rhs); }  // lhs - rhs
  A elemwise_mul(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastMul{}, lhs, rhs); }  // lhs rhs
  A elemwise_div(const In<A>& lhs, const In<A>& rhs) const { return call(op::BroadcastDiv{}, lhs, rhs); }  // lhs / rhs
  // x where condition != 0, else y, which have one shape and dtype; a 1-D condition chooses rows
  A where(const In<A>& condition, const In<A>& x, const In<A>& y) const { return call(op::Where{}, condition, x, y); }
  A add_n(std::span<const A> arrays, std::source_location site = std::source_location::current()) const {  // sum in order
    std::vector<const A*> inputs;
    for (const A& a : arrays) inputs.push_back(&a);
    return call_list(op::AddN{.num_args = int(inputs.size())}, inputs, site);
  }
  template <class... Rest>
  A add_n(const In<A>& first, const Rest&... rest) const {
    return call(op::AddN{.num_args = 1 + int(sizeof...(Rest))}, first, In<A>(rest)...);
  }
  A _sum_to(const In<A>& x, const op::SumTo& op) const { return call(op, x); }
  // --- elementwise, two arrays or an array and a number; ValueError: two numbers; TypeError: 0.5 with integer arrays
  A add(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::add, a, b, name_); }  // a + b
  A subtract(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::sub, a, b, name_); }  // a - b
  A multiply(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::mul, a, b, name_); }  // a b
  A divide(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::div, a, b, name_); }  // a / b
  A modulo(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::mod, a, b, name_); }  // remainder of a / b, with the sign of b
  A power(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::power, a, b, name_); }  // a^b
  A maximum(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::maximum, a, b, name_); }  // the larger
  A minimum(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::minimum, a, b, name_); }  // the smaller
  A hypot(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::hypot, a, b, name_); }  // sqrt(a^2 + b^2)
  A equal(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::equal, a, b, name_); }  // a == b
  A not_equal(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::not_equal, a, b, name_); }  // a != b
  A greater(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::greater, a, b, name_); }  // a > b
  A greater_equal(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::greater_equal, a, b, name_); }  // a >= b
  A lesser(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::lesser, a, b, name_); }  // a < b
  A lesser_equal(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::lesser_equal, a, b, name_); }  // a <= b
  A logical_and(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::logical_and, a, b, name_); }  // a != 0 and b != 0
  A logical_or(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::logical_or, a, b, name_); }  // a != 0 or b != 0
  A logical_xor(const Arg<A>& a, const Arg<A>& b) const { return A::binary(ops::BinaryKind::logical_xor, a, b, name_); }  // one of a != 0 and b != 0
  A _plus_scalar(const In<A>& x, const op::PlusScalar& op) const { return call(op, x); }
  A _minus_scalar(const In<A>& x, const op::MinusScalar& op) const { return call(op, x); }
  A _rminus_scalar(const In<A>& x, const op::RMinusScalar& op) const { return call(op, x); }
  A _mul_scalar(const In<A>& x, const op::MulScalar& op) const { return call(op, x); }
  A _div_scalar(const In<A>& x, const op::DivScalar& op) const { return call(op, x); }
  A _rdiv_scalar(const In<A>& x, const op::RDivScalar& op) const { return call(op, x); }
  A _mod_scalar(const In<A>& x, const op::ModScalar& op) const { return call(op, x); }
  A _rmod_scalar(const In<A>& x, const op::RModScalar& op) const { return call(op, x); }
  A _power_scalar(const In<A>& x, const op::PowerScalar& op) const { return call(op, x); }
  A _rpower_scalar(const In<A>& x, const op::RPowerScalar& op) const { return call(op, x); }
  A _maximum_scalar(const In<A>& x, const op::MaximumScalar& op) const { return call(op, x); }
  A _minimum_scalar(const In<A>& x, const op::MinimumScalar& op) const { return call(op, x); }
  A _hypot_scalar(const In<A>& x, const op::HypotScalar& op) const { return call(op, x); }
  A _equal_scalar(const In<A>& x, const op::EqualScalar& op) const { return call(op, x); }
  A _not_equal_scalar(const In<A>& x, const op::NotEqualScalar& op) const { return call(op, x); }
  A _greater_scalar(const In<A>& x, const op::GreaterScalar& op) const { return call(op, x); }
  A _greater_equal_scalar(const In<A>& x, const op::GreaterEqualScalar& op) const { return call(op, x); }
  A _lesser_scalar(const In<A>& x, const op::LesserScalar& op) const { return call(op, x); }
  A _lesser_equal_scalar(const In<A>& x, const op::LesserEqualScalar& op) const { return call(op, x); }
  A _logical_and_scalar(const In<A>& x, const op::LogicalAndScalar& op) const { return call(op, x); }
  A _logical_or_scalar(const In<A>& x, const op::LogicalOrScalar& op) const { return call(op, x); }
  A _logical_xor_scalar(const In<A>& x, const op::LogicalXorScalar& op) const { return call(op, x); }
  // --- reductions over op.axis (empty: all axes), of any dtype but bool; mean and norm floating. Of bool, sums and
  // products are int64, means float32. Without axes a result has shape (1,). sum(x, 1), sum(x, Shape(0, 2)) or sum(x, {.axis = {0, 2}}). A NaN passes max and min; nansum and
  // nanprod skip it. No elements: ShapeError in max, min, argmax
  A sum(const In<A>& x, const op::Sum& op = {}) const { return call(op, x); }  // sum
  A sum(const In<A>& x, ops::Axes auto axes, bool keepdims = false) const { return call(op::Sum{.axis = Shape(axes), .keepdims = keepdims}, x); }
  A mean(const In<A>& x, const op::Mean& op = {}) const { return call(op, x); }  // sum / number of elements
  A mean(const In<A>& x, ops::Axes auto axes, bool keepdims = false) const { return call(op::Mean{.axis = Shape(axes), .keepdims = keepdims}, x); }
  A prod(const In<A>& x, const op::Prod& op = {}) const { return call(op, x); }  // product
  A prod(const In<A>& x, ops::Axes auto axes, bool keepdims = false) const { return call(op::Prod{.axis = Shape(axes), .keepdims = keepdims}, x); }
  A max(const In<A>& x, const op::Max& op = {}) const { return call(op, x); }  // largest element
  A max(const In<A>& x, ops::Axes auto axes, bool keepdims = false) const { return call(op::Max{.axis = Shape(axes), .keepdims = keepdims}, x); }
  A min(const In<A>& x, const op::Min& op = {}) const { return call(op, x); }  // smallest element
  A min(const In<A>& x, ops::Axes auto axes, bool keepdims = false) const { return call(op::Min{.axis = Shape(axes), .keepdims = keepdims}, x); }
  A nansum(const In<A>& x, const op::NanSum& op = {}) const { return call(op, x); }  // sum without NaN
  A nanprod(const In<A>& x, const op::NanProd& op = {}) const { return call(op, x); }  // product without NaN
  A norm(const In<A>& x, const op::Norm& op = {}) const { return call(op, x); }      // ord 1: sum |x|; 2: sqrt(sum x^2)
  A argmax(const In<A>& x, const op::ArgMax& op = {}) const { return call(op, x); }  // of the first largest, in x's dtype
  A argmin(const In<A>& x, const op::ArgMin& op = {}) const { return call(op, x); }  // index of the first smallest
  A argmax_channel(const In<A>& x) const { return call(op::ArgMaxChannel{}, x); }    // (n, c) to (n,): argmax along axis 1
  // the k largest elements, or all in order: NaN counts as the largest, equal ones come in the order of their indices
  A topk(const In<A>& x, const op::TopK& op = {}) const { return call(op, x); }  // with .ret_typ value, indices or mask
  std::vector<A> topk_both(const In<A>& x, op::TopK op = {}) const { return op.ret_typ = TopKReturn::both, call_many(2, op, x); }  // values, indices
  A sort(const In<A>& x, const op::Sort& op = {}) const { return call(op, x); }           // elements along op.axis (-1) in order
  A argsort(const In<A>& x, const op::ArgSort& op = {}) const { return call(op, x); }     // their indices, float32 unless op.dtype says otherwise
  std::vector<A> _order(const In<A>& x, const op::Order& op) const { return call_many(2, op, x); }
  A _backward_sum(const In<A>& head, const op::SumGrad& op) const { return call(op, head); }
  A _backward_max(const In<A>& head, const In<A>& x, const In<A>& y, const op::MaxGrad& op) const { return call(op, head, x, y); }
  A _backward_nansum(const In<A>& head, const In<A>& x, const op::NanSumGrad& op) const { return call(op, head, x); }
  A _backward_prod(const In<A>& head, const In<A>& x, const op::ProdGrad& op) const { return call(op, head, x); }
  A _backward_norm(const In<A>& head, const In<A>& x, const In<A>& y, const op::NormGrad& op) const { return call(op, head, x, y); }
  A cumsum(const In<A>& a, const op::CumSum& op = {}) const { return call(op, a); }  // sums up to each element; no axis: flattened
  A _scan(const In<A>& x, const op::Scan& op) const { return call(op, x); }
  // --- shape and movement, of any dtype; ShapeError for what does not fit
  A reshape(const In<A>& x, const Shape& shape, bool reverse = false) const {  // codes 0 -1 -2 -3 -4
    return call(op::Reshape{.shape = shape, .reverse = reverse}, x);
  }
  A reshape_like(const In<A>& lhs, const In<A>& rhs, const op::ReshapeLike& op = {}) const { return call(op, lhs, rhs); }
  A flatten(const In<A>& x) const { return call(op::Flatten{}, x); }  // (n, a, b, ...) to (n, a b ...)
  A expand_dims(const In<A>& x, int axis) const { return call(op::ExpandDims{.axis = axis}, x); }  // a 1 before `axis`
  A squeeze(const In<A>& x, const std::optional<Shape>& axis = {}) const { return call(op::Squeeze{.axis = axis}, x); }
  A _reshape_to(const In<A>& x, const op::ReshapeTo& op) const { return call(op, x); }
  A transpose(const In<A>& x, const Shape& axes = {}) const { return call(op::Transpose{.axes = axes}, x); }
  A swapaxes(const In<A>& x, int dim1, int dim2) const { return call(op::SwapAxis{.dim1 = dim1, .dim2 = dim2}, x); }
  // x[begin:end:step] on the leading axes, as in NumPy. None is std::nullopt: nd.slice(x, {0, std::nullopt}, {2, 3})
  A slice(const In<A>& x, const OptionalShape& begin, const OptionalShape& end, const OptionalShape& step = {}) const {
    return call(op::Slice{.begin = begin, .end = end, .step = step}, x);
  }
  A slice_axis(const In<A>& x, int axis, int64_t begin, std::optional<int64_t> end = {}) const {  // not clamped
    return call(op::SliceAxis{.axis = axis, .begin = begin, .end = end}, x);
  }
  A slice_like(const In<A>& x, const In<A>& shape_like, const op::SliceLike& op = {}) const { return call(op, x, shape_like); }
  A _backward_slice(const In<A>& head, const op::SliceGrad& op) const { return call(op, head); }
  A _slice_assign(const In<A>& lhs, const In<A>& rhs, const op::SliceAssign& op) const { return call(op, lhs, rhs); }
  A _slice_assign_scalar(const In<A>& x, const op::SliceAssignScalar& op) const { return call(op, x); }
  A concat(std::span<const A> arrays, op::Concat op = {}, const std::source_location& site = std::source_location::current()) const {
    op.num_args = int(arrays.size());
    return call_array_list(op, arrays, site);
  }
  template <std::convertible_to<In<A>>... Rest>  // one after the other along axis dim (1); one dtype
  A concat(const op::Concat& op, const In<A>& first, const Rest&... rest) const {
    return call(op::Concat{.dim = op.dim, .num_args = 1 + int(sizeof...(rest))}, first, In<A>(rest)...);
  }
  template <std::convertible_to<In<A>>... Rest>
  A concat(const In<A>& first, const In<A>& second, const Rest&... rest) const {
    return concat(op::Concat{}, first, second.array(), rest...);
  }
  A stack(std::span<const A> arrays, op::Stack op = {}, const std::source_location& site = std::source_location::current()) const {
    op.num_args = int(arrays.size());
    return call_array_list(op, arrays, site);
  }
  template <std::convertible_to<In<A>>... Rest>  // arrays of one shape and dtype along a new axis (0)
  A stack(const op::Stack& op, const In<A>& first, const Rest&... rest) const {
    return call(op::Stack{.axis = op.axis, .num_args = 1 + int(sizeof...(rest))}, first, In<A>(rest)...);
  }
  template <std::convertible_to<In<A>>... Rest>
  A stack(const In<A>& first, const In<A>& second, const Rest&... rest) const {
    return stack(op::Stack{}, first, second.array(), rest...);
  }
  std::vector<A> split(const In<A>& x, int num_outputs, op::SliceChannel op = {}) const {  // equal parts along axis (1)
    op.num_outputs = num_outputs;
    return call_many(num_outputs, op, x);
  }
  std::vector<A> split_v2(const In<A>& x, int sections, int axis = 0, bool squeeze_axis = false) const {  // the first ones larger by 1
    return _split_v2(x, {.axis = axis, .squeeze_axis = squeeze_axis, .sections = sections});
  }
  std::vector<A> split_v2(const In<A>& x, const ops::IntTuple& indices, int axis = 0, bool squeeze_axis = false) const {  // cut before these
    ops::IntTuple begins(0);
    for (int i = 0; i < indices.size(); ++i) {
      if (!begins.push_back(indices[i])) throw ValueError("[split_v2] expected at most 63 indices");
    }
    return _split_v2(x, {.indices = begins, .axis = axis, .squeeze_axis = squeeze_axis});
  }
  std::vector<A> _split_v2(const In<A>& x, const op::SplitV2& op) const { return call_many(op.num_outputs(), op, x); }
  A depth_to_space(const In<A>& x, int block_size) const { return call(op::DepthToSpace{.block_size = block_size}, x); }  // channels to blocks of pixels
  A space_to_depth(const In<A>& x, int block_size) const { return call(op::SpaceToDepth{.block_size = block_size}, x); }
  A diag(const In<A>& x, const op::Diag& op = {}) const { return call(op, x); }  // the k-th diagonal of a matrix; of a vector, the matrix
  A repeat(const In<A>& x, int repeats, std::optional<int> axis = {}) const {  // each element; no axis: flattened
    return call(op::Repeat{.repeats = repeats, .axis = axis}, x);
  }
  A tile(const In<A>& x, const Shape& reps) const { return call(op::Tile{.reps = reps}, x); }  // reps[i] times along axis i
  A reverse(const In<A>& x, const Shape& axis) const { return call(op::Reverse{.axis = axis}, x); }  // along each of axis
  A flip(const In<A>& x, const Shape& axis) const { return reverse(x, axis); }                   // as reverse
  A pad(const In<A>& x, const op::Pad& op) const { return call(op, x); }  // by pad_width, (before, after) for each axis
  A _backward_pad(const In<A>& head, const op::PadGrad& op) const { return call(op, head); }
  A broadcast_to(const In<A>& x, const Shape& shape) const { return call(op::BroadcastTo{.shape = shape}, x); }
  A broadcast_axis(const In<A>& x, const Shape& axis, const Shape& size) const {  // axis[i], of size 1, to size[i]
    return call(op::BroadcastAxis{.axis = axis, .size = size}, x);
  }
  A broadcast_like(const In<A>& lhs, const In<A>& rhs, const op::BroadcastLike& op = {}) const { return call(op, lhs, rhs); }
  A SequenceMask(const In<A>& x, const op::SequenceMask& op = {}) const { return call(op, x); }
  A SequenceMask(const In<A>& x, const In<A>& sequence_length, op::SequenceMask op = {}) const {  // (batch,)
    op.use_sequence_length = true;
    return call(op, x, sequence_length);
  }
  A SequenceLast(const In<A>& x, const op::SequenceLast& op = {}) const { return call(op, x); }
  A SequenceLast(const In<A>& x, const In<A>& sequence_length, op::SequenceLast op = {}) const { return op.use_sequence_length = true, call(op, x, sequence_length); }
  A SequenceReverse(const In<A>& x, const op::SequenceReverse& op = {}) const { return call(op, x); }
  A SequenceReverse(const In<A>& x, const In<A>& sequence_length, op::SequenceReverse op = {}) const { return op.use_sequence_length = true, call(op, x, sequence_length); }
  A arange_like(const In<A>& x, const op::ArangeLike& op = {}) const { return call(op, x); }
  A shape_array(const In<A>& x) const { return call(op::ShapeArray{}, x); }  // the shape of x, int64
  A size_array(const In<A>& x) const { return call(op::SizeArray{}, x); }    // the number of elements, int64 (1,)
  // --- indexing, by indices of any dtype but bool; outside they are clipped, or as op.mode says; gather_nd fails with
  // IndexError. take: a[..., indices, ...] along axis; Embedding: weight[data]; pick: one element per run along axis
  A take(const In<A>& a, const In<A>& indices, const op::Take& op = {}) const { return call(op, a, indices); }
  A _backward_take(const In<A>& head, const In<A>& indices, const op::TakeGrad& op) const { return call(op, head, indices); }
  A Embedding(const In<A>& data, const In<A>& weight, const op::Embedding& op) const { return call(op, data, weight); }
  A pick(const In<A>& data, const In<A>& index, const op::Pick& op = {}) const { return call(op, data, index); }
  A _backward_pick(const In<A>& head, const In<A>& index, const op::PickGrad& op) const { return call(op, head, index); }
  A batch_take(const In<A>& a, const In<A>& indices) const { return call(op::BatchTake{}, a, indices); }
  A one_hot(const In<A>& indices, int64_t depth, op::OneHot op = {}) const {  // indices.shape + (depth,)
    op.depth = depth;
    return call(op, indices);
  }
  A gather_nd(const In<A>& data, const In<A>& indices) const { return call(op::GatherNd{}, data, indices); }
  A _backward_gather_nd(const In<A>& head, const In<A>& indices, const op::GatherNdGrad& op) const { return call(op, head, indices); }
  A scatter_nd(const In<A>& data, const In<A>& indices, const Shape& shape) const { return call(op::ScatterNd{.shape = shape}, data, indices); }  // zeros with data at the indices
  A _scatter_set_nd(const In<A>& lhs, const In<A>& rhs, const In<A>& indices, const op::ScatterSetNd& op) const { return call(op, lhs, rhs, indices); }
  A index_copy(const In<A>& old_tensor, const In<A>& index_vector, const In<A>& new_tensor) const { return call(op::IndexCopy{}, old_tensor, index_vector, new_tensor); }  // with these rows replaced
  A index_array(const In<A>& data, const op::IndexArray& op = {}) const { return call(op, data); }  // the position of each element, int64
  A ravel_multi_index(const In<A>& data, const Shape& shape) const { return call(op::RavelMultiIndex{.shape = shape}, data); }  // tuples (m, n) to positions (n,)
  A unravel_index(const In<A>& data, const Shape& shape) const { return call(op::UnravelIndex{.shape = shape}, data); }  // positions to tuples
  // The slices of data along the axis where the 1-D index is not 0. Their number depends on its values: waits for them.
  // TraceError in a trace and for Symbols, which have no values.
  A boolean_mask(const In<A>& data, const In<A>& index, int axis = 0) const {
    if constexpr (std::same_as<A, NDArray>) {
      return ops::boolean_mask(data.array(), index.array(), axis, data.site());
    } else {
      ops::refuse_in_trace("boolean_mask");
    }
  }
  // --- linear algebra, floating dtypes. dot contracts lhs's last axis with rhs's first; batch_dot takes 3-D arrays
  A dot(const In<A>& lhs, const In<A>& rhs, const op::Dot& op = {}) const { return call(op, lhs, rhs); }
  A batch_dot(const In<A>& lhs, const In<A>& rhs, const op::BatchDot& op = {}) const { return call(op, lhs, rhs); }
  A khatri_rao(std::span<const A> arrays, const std::source_location& site = std::source_location::current()) const {  // Kronecker products of columns
    return call_array_list(op::KhatriRao{.num_args = int(arrays.size())}, arrays, site);
  }
  // BLAS's products of the matrices along the last two axes, whose leading axes are equal
  A linalg_gemm(const In<A>& a, const In<A>& b, const In<A>& c, const op::LinalgGemm& op = {}) const { return call(op, a, b, c); }  // alpha op(a) op(b) + beta c
  A linalg_gemm2(const In<A>& a, const In<A>& b, const op::LinalgGemm2& op = {}) const { return call(op, a, b); }  // alpha op(a) op(b)
  A linalg_syrk(const In<A>& a, const op::LinalgSyrk& op = {}) const { return call(op, a); }  // alpha a a^T
  A linalg_trmm(const In<A>& a, const In<A>& b, const op::LinalgTrmm& op = {}) const { return call(op, a, b); }  // alpha op(a) b, a triangular
  // NumPy's products, of any dtype but bool
  A matmul(const In<A>& a, const In<A>& b) const { return call(op::Matmul{}, a, b); }  // of matrices whose leading axes broadcast
  A tensordot(const In<A>& a, const In<A>& b, const op::Tensordot& op) const { return call(op, a, b); }  // summed over axes of both
  A tensordot(const In<A>& a, const In<A>& b, int axes = 2) const { return call(op::TensordotIntAxes{.axes = axes}, a, b); }  // the last of a, the first of b
  A outer(const In<A>& a, const In<A>& b) const { return call(op::Outer{}, a, b); }  // each element of a times each of b
  A kron(const In<A>& a, const In<A>& b) const { return call(op::Kron{}, a, b); }  // Kronecker's product
  A einsum(std::string_view subscripts, std::span<const A> arrays, const std::source_location& site = std::source_location::current()) const {  // "ij,jk->ik"
    return call_array_list(op::Einsum{.num_args = int(arrays.size()), .subscripts = {engine::intern(subscripts)}}, arrays, site);
  }
  // factorisations of such matrices, float32 and float64; ValueError for a matrix that has none
  A linalg_potrf(const In<A>& a, const op::LinalgPotrf& op = {}) const { return call(op, a); }  // L with L L^T = a
  A linalg_potri(const In<A>& a, const op::LinalgPotri& op = {}) const { return call(op, a); }  // (a a^T)^-1 of L
  A linalg_trsm(const In<A>& a, const In<A>& b, const op::LinalgTrsm& op = {}) const { return call(op, a, b); }  // x with op(a) x = alpha b, a triangular
  A linalg_solve(const In<A>& a, const In<A>& b) const { return call(op::LinalgSolve{}, a, b); }  // x with a x = b
  A linalg_inverse(const In<A>& a) const { return call(op::LinalgInverse{}, a); }  // a^-1
  A linalg_det(const In<A>& a) const { return call(op::LinalgDet{}, a); }  // determinants
  std::vector<A> linalg_slogdet(const In<A>& a) const { return call_many(2, op::LinalgSlogdet{}, a); }  // their signs, logarithms of their magnitudes
  std::vector<A> linalg_gelqf(const In<A>& a) const { return call_many(2, op::LinalgGelqf{}, a); }  // Q, L with L Q = a
  std::vector<A> linalg_syevd(const In<A>& a) const { return call_many(2, op::LinalgSyevd{}, a); }  // U, L with U^T diag(L) U = a, symmetric
  std::vector<A> linalg_svd(const In<A>& a) const { return call_many(3, op::LinalgSvd{}, a); }  // UT, L, V with UT diag(L) V = a
  // triangles and diagonals of such matrices, any dtype
  A linalg_sumlogdiag(const In<A>& a) const { return call(op::LinalgSumLogDiag{}, a); }  // the sum of their logarithms, floating
  A linalg_extractdiag(const In<A>& a, const op::LinalgExtractDiag& op = {}) const { return call(op, a); }
  A linalg_makediag(const In<A>& a, const op::LinalgMakeDiag& op = {}) const { return call(op, a); }
  A linalg_extracttrian(const In<A>& a, const op::LinalgExtractTrian& op = {}) const { return call(op, a); }  // lower: its rows, upper: its columns, one after the other
  A linalg_maketrian(const In<A>& a, const op::LinalgMakeTrian& op = {}) const { return call(op, a); }
  A _triangle(const In<A>& a, const op::Triangle& op = {}) const { return call(op, a); }
  // clang-format on

 protected:
  using Calls::call_array_list;
  using Calls::call_list;
  using Calls::call_list_many;
  using Calls::call_many;
  using Calls::name_;
};

}  // namespace kaon
