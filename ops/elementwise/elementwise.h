// Functions of each element of one, two or more arrays.
#pragma once

#include <limits>

#include "kaon/engine/api.h"
#include "kaon/ops/elementwise_kinds.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

namespace ops {
// --- Functions of one array, element by element: y = f(x). NaN propagates. Formulae: the C functions of the same
// name, and relu = max(x, 0), sigmoid = 1 / (1 + e^-x), softsign = x / (1 + |x|), softrelu = log(1 + e^x),
// gelu = x/2 (1 + erf(x / sqrt 2)), erfinv = the inverse of erf, rint = nearest with halves downwards, round = halves
// away from zero.

KAON_API void infer_unary(UnaryKind kind, InferContext& c);
KAON_API void grad_unary(UnaryKind kind, GradContext& g);
KAON_API FusedForms fused_unary(UnaryKind kind, const RegisterKernels& k);
KAON_API FusedActivation unary_epilogue(UnaryKind kind);
KAON_API void run_unary(UnaryKind kind, KernelContext& c);
void run_unary_cuda(UnaryKind kind, KernelContext& c);
KAON_API void infer_unary_backward(InferContext& c);
KAON_API void grad_unary_backward(UnaryBackwardKind kind, GradContext& g);
KAON_API void run_unary_backward(UnaryBackwardKind kind, KernelContext& c);
void run_unary_backward_cuda(UnaryBackwardKind kind, KernelContext& c);

constexpr OpTraits unary_traits(UnaryKind kind) {
  OpTraits t{.name = info(kind).name, .inplace = 0, .pointwise = true, .any_layout = true};
  t.in_mxnet = info(kind).in_mxnet;
  t.flat = is_flat(kind);
  if (!info(kind).alias.empty()) t.aliases = Names(info(kind).alias);
  return t;
}
}  // namespace ops

namespace op {
template <ops::UnaryKind K>
struct Unary {
  static constexpr OpTraits traits = ops::unary_traits(K);
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_unary(K, c); }
  void grad(GradContext& g) const requires(!ops::is_flat(K)) { ops::grad_unary(K, g); }
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  FusedActivation as_epilogue() const { return ops::unary_epilogue(K); }
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};
}  // namespace op
template <ops::UnaryKind K>
void run_cpu(const op::Unary<K>&, KernelContext& c) {
  ops::run_unary(K, c);
}
template <ops::UnaryKind K>
void run_cuda(const op::Unary<K>&, KernelContext& c) {
  ops::run_unary_cuda(K, c);
}

namespace ops {
inline constexpr std::array<std::string_view, size_t(unary_backward_kinds)> unary_backward_names{
    "_backward_relu", "_backward_sigmoid", "_backward_tanh", "_backward_gelu"};
}  // namespace ops

namespace op {
// head * f'(x), computed from the output of f (gelu: from its input).
template <ops::UnaryBackwardKind K>
struct UnaryBackward {
  static constexpr OpTraits traits{.name = ops::unary_backward_names[size_t(K)],
                                   .inputs = {"head", "saved"},
                                   .inplace = 0,
                                   .pointwise = true,
                                   .any_layout = true,
                                   .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_unary_backward(c); }
  void grad(GradContext& g) const { ops::grad_unary_backward(K, g); }
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

using Relu = Unary<ops::UnaryKind::relu>;
using Sigmoid = Unary<ops::UnaryKind::sigmoid>;
using Tanh = Unary<ops::UnaryKind::tanh>;
using Exp = Unary<ops::UnaryKind::exp>;
using Log = Unary<ops::UnaryKind::log>;
using Sqrt = Unary<ops::UnaryKind::sqrt>;
using Rsqrt = Unary<ops::UnaryKind::rsqrt>;
using Square = Unary<ops::UnaryKind::square>;
using Abs = Unary<ops::UnaryKind::abs>;
using Sign = Unary<ops::UnaryKind::sign>;
using Negative = Unary<ops::UnaryKind::negative>;
using Reciprocal = Unary<ops::UnaryKind::reciprocal>;
using Erf = Unary<ops::UnaryKind::erf>;
using Log1p = Unary<ops::UnaryKind::log1p>;
using Expm1 = Unary<ops::UnaryKind::expm1>;
using Log2 = Unary<ops::UnaryKind::log2>;
using Log10 = Unary<ops::UnaryKind::log10>;
using Sin = Unary<ops::UnaryKind::sin>;
using Cos = Unary<ops::UnaryKind::cos>;
using Tan = Unary<ops::UnaryKind::tan>;
using Arcsin = Unary<ops::UnaryKind::arcsin>;
using Arccos = Unary<ops::UnaryKind::arccos>;
using Arctan = Unary<ops::UnaryKind::arctan>;
using Sinh = Unary<ops::UnaryKind::sinh>;
using Cosh = Unary<ops::UnaryKind::cosh>;
using Arcsinh = Unary<ops::UnaryKind::arcsinh>;
using Arccosh = Unary<ops::UnaryKind::arccosh>;
using Arctanh = Unary<ops::UnaryKind::arctanh>;
using Floor = Unary<ops::UnaryKind::floor>;
using Ceil = Unary<ops::UnaryKind::ceil>;
using Round = Unary<ops::UnaryKind::round>;
using Rint = Unary<ops::UnaryKind::rint>;
using Trunc = Unary<ops::UnaryKind::trunc>;
using Fix = Unary<ops::UnaryKind::fix>;
using Cbrt = Unary<ops::UnaryKind::cbrt>;
using Rcbrt = Unary<ops::UnaryKind::rcbrt>;
using Softsign = Unary<ops::UnaryKind::softsign>;
using SoftRelu = Unary<ops::UnaryKind::softrelu>;
using Gelu = Unary<ops::UnaryKind::gelu>;
using LogicalNot = Unary<ops::UnaryKind::logical_not>;
using Degrees = Unary<ops::UnaryKind::degrees>;
using Radians = Unary<ops::UnaryKind::radians>;
using Gamma = Unary<ops::UnaryKind::gamma>;
using GammaLn = Unary<ops::UnaryKind::gammaln>;
using Digamma = Unary<ops::UnaryKind::digamma>;
using Erfinv = Unary<ops::UnaryKind::erfinv>;
using Copy = Unary<ops::UnaryKind::identity>;
using BlockGrad = Unary<ops::UnaryKind::stop_gradient>;
using ZerosLike = Unary<ops::UnaryKind::zeros_like>;
using OnesLike = Unary<ops::UnaryKind::ones_like>;
using BackwardRelu = UnaryBackward<ops::UnaryBackwardKind::relu>;
using BackwardSigmoid = UnaryBackward<ops::UnaryBackwardKind::sigmoid>;
using BackwardTanh = UnaryBackward<ops::UnaryBackwardKind::tanh>;
using BackwardGelu = UnaryBackward<ops::UnaryBackwardKind::gelu>;
}  // namespace op
template <ops::UnaryBackwardKind K>
void run_cpu(const op::UnaryBackward<K>&, KernelContext& c) {
  ops::run_unary_backward(K, c);
}
template <ops::UnaryBackwardKind K>
void run_cuda(const op::UnaryBackward<K>&, KernelContext& c) {
  ops::run_unary_backward_cuda(K, c);
}

namespace ops {
// --- Functions of two arrays, element by element, broadcasting: dimensions are matched from the right, and one of
// size 1 is repeated. Both arrays have one dtype, which is that of the result; comparisons give 0 and 1 in it.
// mod has the sign of the divisor and is 0 for a divisor of 0; integer division truncates, and gives 0 likewise.
// logaddexp = log(e^a + e^b) without overflow, of floating dtypes; equal infinities share its gradient, half each.

KAON_API void infer_binary(BinaryKind kind, InferContext& c);
KAON_API void grad_binary(BinaryKind kind, GradContext& g);
KAON_API void run_binary(BinaryKind kind, KernelContext& c);
void run_binary_cuda(BinaryKind kind, KernelContext& c);

struct BinaryInfo {
  std::string_view name;
  Names aliases;
  bool in_mxnet = true;
};

// In the order of BinaryKind.
inline constexpr std::array<BinaryInfo, size_t(binary_kinds)> binary_table{{
    {"broadcast_add", {"elemwise_add", "broadcast_plus", "_plus", "_Plus", "_add", "_grad_add"}},
    {"broadcast_sub", {"elemwise_sub", "broadcast_minus", "_minus", "_Minus", "_sub"}},
    {"broadcast_mul", {"elemwise_mul", "_mul", "_Mul"}},
    {"broadcast_div", {"elemwise_div", "_div", "_Div"}},
    {"broadcast_mod", {"_mod", "_Mod"}},
    {"broadcast_power", {"_power", "_Power"}},
    {"broadcast_maximum", {"_maximum", "_Maximum"}},
    {"broadcast_minimum", {"_minimum", "_Minimum"}},
    {"broadcast_hypot", {"_hypot"}},
    {"logaddexp", {}, false},
    {"broadcast_equal", {"_equal", "_Equal"}},
    {"broadcast_not_equal", {"_not_equal", "_Not_Equal"}},
    {"broadcast_greater", {"_greater", "_Greater"}},
    {"broadcast_greater_equal", {"_greater_equal", "_Greater_Equal"}},
    {"broadcast_lesser", {"_lesser", "_Lesser"}},
    {"broadcast_lesser_equal", {"_lesser_equal", "_Lesser_Equal"}},
    {"broadcast_logical_and", {"_logical_and", "_Logical_And"}},
    {"broadcast_logical_or", {"_logical_or", "_Logical_Or"}},
    {"broadcast_logical_xor", {"_logical_xor", "_Logical_Xor"}},
}};
}  // namespace ops

namespace op {
template <ops::BinaryKind K>
struct Binary {
  static constexpr OpTraits traits{.name = ops::binary_table[size_t(K)].name,
                                   .inputs = {"lhs", "rhs"},
                                   .inplace = 0,
                                   .pointwise = true,
                                   .any_layout = true,
                                   .in_mxnet = ops::binary_table[size_t(K)].in_mxnet,
                                   .flat = ops::is_logical(K),
                                   .aliases = ops::binary_table[size_t(K)].aliases};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_binary(K, c); }
  void grad(GradContext& g) const requires(!ops::is_logical(K)) { ops::grad_binary(K, g); }
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

using BroadcastAdd = Binary<ops::BinaryKind::add>;
using BroadcastSub = Binary<ops::BinaryKind::sub>;
using BroadcastMul = Binary<ops::BinaryKind::mul>;
using BroadcastDiv = Binary<ops::BinaryKind::div>;
using BroadcastMod = Binary<ops::BinaryKind::mod>;
using BroadcastPower = Binary<ops::BinaryKind::power>;
using BroadcastMaximum = Binary<ops::BinaryKind::maximum>;
using BroadcastMinimum = Binary<ops::BinaryKind::minimum>;
using BroadcastHypot = Binary<ops::BinaryKind::hypot>;
using LogAddExp = Binary<ops::BinaryKind::logaddexp>;
using BroadcastEqual = Binary<ops::BinaryKind::equal>;
using BroadcastNotEqual = Binary<ops::BinaryKind::not_equal>;
using BroadcastGreater = Binary<ops::BinaryKind::greater>;
using BroadcastGreaterEqual = Binary<ops::BinaryKind::greater_equal>;
using BroadcastLesser = Binary<ops::BinaryKind::lesser>;
using BroadcastLesserEqual = Binary<ops::BinaryKind::lesser_equal>;
using BroadcastLogicalAnd = Binary<ops::BinaryKind::logical_and>;
using BroadcastLogicalOr = Binary<ops::BinaryKind::logical_or>;
using BroadcastLogicalXor = Binary<ops::BinaryKind::logical_xor>;
}  // namespace op
template <ops::BinaryKind K>
void run_cpu(const op::Binary<K>&, KernelContext& c) {
  ops::run_binary(K, c);
}
template <ops::BinaryKind K>
void run_cuda(const op::Binary<K>&, KernelContext& c) {
  ops::run_binary_cuda(K, c);
}

namespace ops {
// --- Functions of an array and a number, element by element: x + s, s - x, x > s ... and smooth_l1, in the array's
// dtype; comparisons give 0 and 1 in it. With 16-bit floats the number is a float32 and the result is rounded once: 1e5
// does not become infinity before it is used. Integer arrays take whole numbers only; comparisons take any, and are
// exact. MXNet rounds the number to the array's dtype first (docs/differences.md).

KAON_API void infer_scalar(ScalarKind kind, double scalar, InferContext& c);
KAON_API void grad_scalar(ScalarKind kind, double scalar, GradContext& g);
KAON_API void run_scalar(ScalarKind kind, const void* op, KernelContext& c);
void run_scalar_cuda(ScalarKind kind, double scalar, KernelContext& c);

constexpr OpTraits scalar_traits(ScalarKind kind) {
  OpTraits t{.name = info(kind).name, .inplace = 0, .pointwise = true, .any_layout = true};
  t.flat = is_logical(info(kind).kind);
  if (!info(kind).alias.empty()) t.aliases = Names(info(kind).alias);
  return t;
}
}  // namespace ops

namespace op {
// `is_int`: whether the number was written as an integer. It is kept in files and has no effect.
template <ops::ScalarKind K>
struct Scalar {
  double scalar = 1;
  bool is_int = true;
  static constexpr OpTraits traits = ops::scalar_traits(K);
  static constexpr void fields(auto field) {
    field("scalar", &Scalar::scalar);
    field("is_int", &Scalar::is_int);
  }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_scalar(K, scalar, c); }
  void grad(GradContext& g) const requires(!ops::is_logical(ops::info(K).kind)) { ops::grad_scalar(K, scalar, g); }
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

// 0.5 (s x)^2 where |x| < 1 / s^2, else |x| - 0.5 / s^2.
template <>
struct Scalar<ops::ScalarKind::smooth_l1> {
  double scalar = 1;
  static constexpr OpTraits traits = ops::scalar_traits(ops::ScalarKind::smooth_l1);
  static constexpr void fields(auto field) { field("scalar", &Scalar::scalar); }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_scalar(ops::ScalarKind::smooth_l1, scalar, c); }
  void grad(GradContext& g) const { ops::grad_scalar(ops::ScalarKind::smooth_l1, scalar, g); }
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

using PlusScalar = Scalar<ops::ScalarKind::plus>;
using MinusScalar = Scalar<ops::ScalarKind::minus>;
using RMinusScalar = Scalar<ops::ScalarKind::rminus>;
using MulScalar = Scalar<ops::ScalarKind::mul>;
using DivScalar = Scalar<ops::ScalarKind::div>;
using RDivScalar = Scalar<ops::ScalarKind::rdiv>;
using ModScalar = Scalar<ops::ScalarKind::mod>;
using RModScalar = Scalar<ops::ScalarKind::rmod>;
using PowerScalar = Scalar<ops::ScalarKind::power>;
using RPowerScalar = Scalar<ops::ScalarKind::rpower>;
using MaximumScalar = Scalar<ops::ScalarKind::maximum>;
using MinimumScalar = Scalar<ops::ScalarKind::minimum>;
using HypotScalar = Scalar<ops::ScalarKind::hypot>;
using EqualScalar = Scalar<ops::ScalarKind::equal>;
using NotEqualScalar = Scalar<ops::ScalarKind::not_equal>;
using GreaterScalar = Scalar<ops::ScalarKind::greater>;
using GreaterEqualScalar = Scalar<ops::ScalarKind::greater_equal>;
using LesserScalar = Scalar<ops::ScalarKind::lesser>;
using LesserEqualScalar = Scalar<ops::ScalarKind::lesser_equal>;
using LogicalAndScalar = Scalar<ops::ScalarKind::logical_and>;
using LogicalOrScalar = Scalar<ops::ScalarKind::logical_or>;
using LogicalXorScalar = Scalar<ops::ScalarKind::logical_xor>;
using SmoothL1 = Scalar<ops::ScalarKind::smooth_l1>;
}  // namespace op
template <ops::ScalarKind K>
void run_cpu(const op::Scalar<K>& op, KernelContext& c) {
  ops::run_scalar(K, &op, c);
}
template <ops::ScalarKind K>
void run_cuda(const op::Scalar<K>& op, KernelContext& c) {
  ops::run_scalar_cuda(K, op.scalar, c);
}

// --- where and clip: elements chosen by a condition or by bounds.

namespace op {
// y = condition != 0 ? x : y, element by element; a 1-D condition chooses whole rows of x and y. All have one shape
// (ShapeError), x and y one dtype (TypeError). No gradient flows to the condition, which may have another dtype.
struct Where {
  static constexpr OpTraits traits{
      .name = "where", .inputs = {"condition", "x", "y"}, .inplace = 1, .pointwise = true, .any_layout = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() || (q.ndim() == q.ndim(1) && q.is_aligned()); }
};

// min(max(x, a_min), a_max); NaN stays. Integers are clamped to the integers inside the bounds; ValueError when there
// is none. Files must give both bounds; in a program a missing one is infinite.
struct Clip {
  double a_min = -std::numeric_limits<double>::infinity();
  double a_max = std::numeric_limits<double>::infinity();
  static constexpr OpTraits traits{.name = "clip", .inplace = 0, .pointwise = true, .any_layout = true};
  static constexpr void fields(auto field) {
    field("a_min", &Clip::a_min, true);
    field("a_max", &Clip::a_max, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

// The head where a_min <= data <= a_max, else 0.
struct ClipBackward {
  double a_min = -std::numeric_limits<double>::infinity();
  double a_max = std::numeric_limits<double>::infinity();
  static constexpr OpTraits traits{.name = "_backward_clip",
                                   .inputs = {"head", "data"},
                                   .inplace = 0,
                                   .pointwise = true,
                                   .any_layout = true,
                                   .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("a_min", &ClipBackward::a_min, true);
    field("a_max", &ClipBackward::a_max, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};
}  // namespace op
void run_cpu(const op::Where& op, KernelContext& c);
void run_cuda(const op::Where& op, KernelContext& c);
void run_cpu(const op::Clip& op, KernelContext& c);
void run_cuda(const op::Clip& op, KernelContext& c);
void run_cpu(const op::ClipBackward& op, KernelContext& c);
void run_cuda(const op::ClipBackward& op, KernelContext& c);

// --- Cast: the same values in another dtype.

namespace op {
// Reals become integers by truncation toward zero; NaN gives 0, what int64 cannot hold its nearest end, and shorter
// integers are the last bits of that. Numbers become bool by != 0, and 16-bit floats round to nearest even. TypeError
// for an unknown dtype.
struct Cast {
  DType dtype = DType::float32;
  static constexpr OpTraits traits{.name = "Cast", .pointwise = true, .any_layout = true, .aliases = {"cast"}};
  static constexpr void fields(auto field) { field("dtype", &Cast::dtype, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

// An array of 16- or 32-bit floats in `dtype`, which is one of these; others stay as they are, float64 too.
struct AmpCast {
  DType dtype = DType::float32;
  static constexpr OpTraits traits{.name = "amp_cast"};
  static constexpr void fields(auto field) { field("dtype", &AmpCast::dtype, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// num_outputs arrays: those of 16- and 32-bit floats in the widest of their dtypes, or in the narrowest with
// cast_narrow; of two of equal width, the first. Others stay as they are, float64 too.
struct AmpMulticast {
  int num_outputs = 1;
  bool cast_narrow = false;
  static constexpr OpTraits traits{.name = "amp_multicast", .variadic = true};
  static constexpr void fields(auto field) {
    field("num_outputs", &AmpMulticast::num_outputs, true);
    field("cast_narrow", &AmpMulticast::cast_narrow);
  }
  static const OpDef def;
  int num_inputs() const { return num_outputs; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op
void run_cpu(const op::Cast& op, KernelContext& c);
void run_cuda(const op::Cast& op, KernelContext& c);

// --- add_n: the sum of any number of arrays of one shape, added in their order.

namespace op {
// y = x0 + x1 + ... 16-bit floats are summed in float32.
struct AddN {
  int num_args = 0;
  static constexpr OpTraits traits{.name = "add_n",
                                   .variadic = true,
                                   .inplace = 0,
                                   .pointwise = true,
                                   .any_layout = true,
                                   .aliases = {"ElementWiseSum"}};
  static constexpr void fields(auto field) { field("num_args", &AddN::num_args, true); }
  static const OpDef def;
  int num_inputs() const { return num_args; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};
}  // namespace op
void run_cpu(const op::AddN& op, KernelContext& c);
void run_cuda(const op::AddN& op, KernelContext& c);

// --- hard_sigmoid: the piecewise linear sigmoid.

namespace op {
// min(max(alpha x + beta, 0), 1), the defaults as in MXNet; NaN stays. Floating dtypes.
struct HardSigmoid {
  double alpha = 0.2;
  double beta = 0.5;
  static constexpr OpTraits traits{.name = "hard_sigmoid", .inplace = 0, .pointwise = true, .any_layout = true};
  static constexpr void fields(auto field) {
    field("alpha", &HardSigmoid::alpha);
    field("beta", &HardSigmoid::beta);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};
}  // namespace op
void run_cpu(const op::HardSigmoid& op, KernelContext& c);
void run_cuda(const op::HardSigmoid& op, KernelContext& c);

// --- polygamma: the derivatives of the digamma function.

namespace op {
// The n-th derivative of digamma, psi_n(x) = (-1)^(n+1) n! sum_k (x + k)^-(n+1); n = 1 is the trigamma function. At 0
// and the negative integers +infinity for odd n, NaN for even n. Floating dtypes; 1 <= n <= 100. Gradient: psi_(n+1).
struct Polygamma {
  int n = 1;
  static constexpr OpTraits traits{
      .name = "polygamma", .inplace = 0, .pointwise = true, .any_layout = true, .in_mxnet = false};
  static constexpr void fields(auto field) { field("n", &Polygamma::n); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};
}  // namespace op
void run_cpu(const op::Polygamma& op, KernelContext& c);
void run_cuda(const op::Polygamma& op, KernelContext& c);

}  // namespace kaon
