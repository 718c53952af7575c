// Element functions of NumPy's: what kind of number it is, bits, choices that broadcast, and functions of two reals.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- isnan, isinf, isfinite, isposinf, isneginf: bool, of every dtype. Integers are finite.

namespace ops {
enum class NumberKind : uint8_t { nan, infinite, finite, positive_infinite, negative_infinite };

constexpr OpTraits number_kind_traits(NumberKind kind) {
  constexpr Names names[] = {{"_npi_isnan", "isnan"},
                             {"_npi_isinf", "isinf"},
                             {"_npi_isfinite", "isfinite"},
                             {"_npi_isposinf", "isposinf"},
                             {"_npi_isneginf", "isneginf"}};
  const Names& n = names[size_t(kind)];
  return {.name = n[0], .inputs = Names("x"), .any_layout = true, .recomputable = true, .flat = true, .aliases = n[1]};
}
void run_number_kind(NumberKind kind, KernelContext& c);
void run_number_kind_cuda(NumberKind kind, KernelContext& c);
}  // namespace ops

namespace op {
template <ops::NumberKind K>
struct IsKind {
  static constexpr OpTraits traits = ops::number_kind_traits(K);
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), DType::boolean); }
  bool keeps_rows(const RowQuery&) const { return true; }
};
using IsNan = IsKind<ops::NumberKind::nan>;
using IsInf = IsKind<ops::NumberKind::infinite>;
using IsFinite = IsKind<ops::NumberKind::finite>;
using IsPosInf = IsKind<ops::NumberKind::positive_infinite>;
using IsNegInf = IsKind<ops::NumberKind::negative_infinite>;
}  // namespace op
template <ops::NumberKind K>
void run_cpu(const op::IsKind<K>&, KernelContext& c) {
  ops::run_number_kind(K, c);
}
template <ops::NumberKind K>
void run_cuda(const op::IsKind<K>&, KernelContext& c) {
  ops::run_number_kind_cuda(K, c);
}

// --- Comparisons and logical_not with bool results, as NumPy has them: equal and the others, cast.

namespace ops {
enum class Comparison : uint8_t { equal, not_equal, greater, greater_equal, less, less_equal };
constexpr OpTraits comparison_traits(Comparison kind, bool with_number) {
  constexpr std::string_view names[] = {"_npi_equal",          "_npi_not_equal",
                                        "_npi_greater",        "_npi_greater_equal",
                                        "_npi_less",           "_npi_less_equal",
                                        "_npi_equal_scalar",   "_npi_not_equal_scalar",
                                        "_npi_greater_scalar", "_npi_greater_equal_scalar",
                                        "_npi_less_scalar",    "_npi_less_equal_scalar"};
  OpTraits t{.name = names[size_t(kind) + (with_number ? 6 : 0)]};
  if (!with_number) t.inputs = Names("lhs", "rhs");
  return t;
}
KAON_API void infer_comparison(InferContext& c);
KAON_API void compose_comparison(Comparison kind, ComposeContext& c);
KAON_API void compose_comparison(Comparison kind, double scalar, ComposeContext& c);
}  // namespace ops

namespace op {
// Two arrays of one dtype that broadcast.
template <ops::Comparison K>
struct Compare {
  static constexpr OpTraits traits = ops::comparison_traits(K, false);
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_comparison(c); }
  void compose(ComposeContext& c) const { ops::compose_comparison(K, c); }
};
using CompareEqual = Compare<ops::Comparison::equal>;
using CompareNotEqual = Compare<ops::Comparison::not_equal>;
using CompareGreater = Compare<ops::Comparison::greater>;
using CompareGreaterEqual = Compare<ops::Comparison::greater_equal>;
using CompareLess = Compare<ops::Comparison::less>;
using CompareLessEqual = Compare<ops::Comparison::less_equal>;

// With a number. is_int, whether it was an integer in the program, is not read.
template <ops::Comparison K>
struct CompareNumber {
  double scalar = 1;
  bool is_int = true;
  static constexpr OpTraits traits = ops::comparison_traits(K, true);
  static constexpr void fields(auto field) {
    field("scalar", &CompareNumber::scalar);
    field("is_int", &CompareNumber::is_int);
  }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_comparison(c); }
  void compose(ComposeContext& c) const { ops::compose_comparison(K, scalar, c); }
};
using CompareEqualScalar = CompareNumber<ops::Comparison::equal>;
using CompareNotEqualScalar = CompareNumber<ops::Comparison::not_equal>;
using CompareGreaterScalar = CompareNumber<ops::Comparison::greater>;
using CompareGreaterEqualScalar = CompareNumber<ops::Comparison::greater_equal>;
using CompareLessScalar = CompareNumber<ops::Comparison::less>;
using CompareLessEqualScalar = CompareNumber<ops::Comparison::less_equal>;

// Whether an element is 0.
struct NumpyLogicalNot {
  static constexpr OpTraits traits{.name = "_npi_logical_not", .inputs = Names("x")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_comparison(c); }
  void compose(ComposeContext& c) const { ops::compose_comparison(ops::Comparison::equal, 0, c); }
};
}  // namespace op

// --- Bits of integers and bool, and common multiples, of two arrays of one dtype, broadcasting.

namespace ops {
enum class BitsKind : uint8_t { bit_and, bit_or, bit_xor, left_shift, right_shift, lcm };

constexpr OpTraits bits_traits(BitsKind kind) {
  constexpr Names names[] = {{"_npi_bitwise_and", "bitwise_and"},
                             {"_npi_bitwise_or", "bitwise_or"},
                             {"_npi_bitwise_xor", "bitwise_xor"},
                             {"left_shift"},
                             {"right_shift"},
                             {"_npi_lcm", "lcm"}};
  const Names& n = names[size_t(kind)];
  OpTraits t{.name = n[0], .inputs = Names("lhs", "rhs"), .inplace = 0, .recomputable = true, .flat = true};
  if (n.size() > 1) t.aliases = Names(n[1]);
  t.in_mxnet = n.size() > 1;
  return t;
}
constexpr OpTraits bits_scalar_traits(BitsKind kind) {
  constexpr std::string_view names[] = {"_npi_bitwise_and_scalar", "_npi_bitwise_or_scalar", "_npi_bitwise_xor_scalar"};
  return {.name = kind == BitsKind::lcm ? "_npi_lcm_scalar" : names[size_t(kind)]};
}
KAON_API void infer_bits(BitsKind kind, InferContext& c);
KAON_API void run_bits(BitsKind kind, KernelContext& c);
void run_bits_cuda(BitsKind kind, KernelContext& c);
}  // namespace ops

namespace op {
// Shifts are for integers. A left shift wraps, a right shift keeps the sign; by a negative number or by the width of
// the dtype and more, all bits are shifted out. lcm: the least common multiple, not negative, 0 where a number is; it
// wraps.
template <ops::BitsKind K>
struct Bits {
  static constexpr OpTraits traits = ops::bits_traits(K);
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_bits(K, c); }
  bool keeps_rows(const RowQuery& q) const { return q.is_aligned(); }
};
using BitwiseAnd = Bits<ops::BitsKind::bit_and>;
using BitwiseOr = Bits<ops::BitsKind::bit_or>;
using BitwiseXor = Bits<ops::BitsKind::bit_xor>;
using LeftShift = Bits<ops::BitsKind::left_shift>;
using RightShift = Bits<ops::BitsKind::right_shift>;
using Lcm = Bits<ops::BitsKind::lcm>;

// The same of an array and a whole number that its dtype holds. is_int as in Scalar.
template <ops::BitsKind K>
struct BitsScalar {
  double scalar = 1;
  bool is_int = true;
  static constexpr OpTraits traits = ops::bits_scalar_traits(K);
  static constexpr void fields(auto field) {
    field("scalar", &BitsScalar::scalar);
    field("is_int", &BitsScalar::is_int);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using BitwiseAndScalar = BitsScalar<ops::BitsKind::bit_and>;
using BitwiseOrScalar = BitsScalar<ops::BitsKind::bit_or>;
using BitwiseXorScalar = BitsScalar<ops::BitsKind::bit_xor>;
using LcmScalar = BitsScalar<ops::BitsKind::lcm>;

// All bits turned; of bool, not x.
struct BitwiseNot {
  static constexpr OpTraits traits{
      .name = "_npi_bitwise_not", .inputs = ops::Names("x"), .aliases = ops::Names("bitwise_not")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op
template <ops::BitsKind K>
void run_cpu(const op::Bits<K>&, KernelContext& c) {
  ops::run_bits(K, c);
}
template <ops::BitsKind K>
void run_cuda(const op::Bits<K>&, KernelContext& c) {
  ops::run_bits_cuda(K, c);
}

// --- nan_to_num.

namespace op {
// x with NaN replaced by `nan`, inf by `posinf`, -inf by `neginf`; without the latter, by the largest and the smallest
// number of the dtype. Integers and bool stay. `copy` has no effect. Gradient: 0 where a number was replaced.
struct NanToNum {
  bool copy = true;
  double nan = 0;
  std::optional<double> posinf{};
  std::optional<double> neginf{};
  static constexpr OpTraits traits{.name = "_npi_nan_to_num",
                                   .inplace = 0,
                                   .any_layout = true,
                                   .recomputable = true,
                                   .aliases = ops::Names("nan_to_num")};
  static constexpr void fields(auto field) {
    field("copy", &NanToNum::copy);
    field("nan", &NanToNum::nan);
    field("posinf", &NanToNum::posinf);
    field("neginf", &NanToNum::neginf);
  }
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery&) const { return true; }
};
}  // namespace op
void run_cpu(const op::NanToNum& op, KernelContext& c);
void run_cuda(const op::NanToNum& op, KernelContext& c);

// --- where with arms that broadcast, and with numbers.

namespace op {
// condition != 0 ? x : y, all three broadcasting. x and y have one dtype.
struct BroadcastWhere {
  static constexpr OpTraits traits{.name = "_npi_where", .inputs = ops::Names("condition", "x", "y")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The same with a number for y, or, `First`, for x; the array is the other arm, whatever MXNet calls it. The number is
// one that the dtype of the array holds.
template <bool First>
struct WhereScalar {
  double scalar = 0;
  static constexpr OpTraits traits{.name = First ? "_npi_where_lscalar" : "_npi_where_rscalar",
                                   .inputs = ops::Names("condition", First ? "x" : "y")};
  static constexpr void fields(auto field) { field("scalar", &WhereScalar::scalar); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using WhereScalarY = WhereScalar<false>;
using WhereScalarX = WhereScalar<true>;

// And for both: float32.
struct WhereScalars {
  double x = 0;
  double y = 0;
  static constexpr OpTraits traits{.name = "_npi_where_scalar2", .inputs = ops::Names("condition")};
  static constexpr void fields(auto field) {
    field("x", &WhereScalars::x);
    field("y", &WhereScalars::y);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

// --- Functions of two arrays of reals, broadcasting; floating dtypes, fmod, fmax and fmin of integers too.

namespace ops {
// arctan2: the angle of the point (x2, x1) in (-pi, pi], as C's atan2; copysign: |x1| with the sign of x2; fmod: the
// remainder of x1 / x2 with the sign of x1; fmax and fmin: the larger and smaller number, NaN where both are; ldexp: x1
// 2^x2. The remainder of integers is 0 for x2 = 0.
enum class RealKind : uint8_t { arctan2, copysign, fmod, fmax, fmin, ldexp };

constexpr bool takes_integers(RealKind kind) {
  return kind == RealKind::fmod || kind == RealKind::fmax || kind == RealKind::fmin;
}
constexpr OpTraits real_traits(RealKind kind) {
  constexpr Names names[] = {{"_npi_arctan2", "arctan2"}, {"_npi_copysign", "copysign"}, {"fmod"}, {"fmax"}, {"fmin"},
                             {"_npi_ldexp", "ldexp"}};
  const Names& n = names[size_t(kind)];
  OpTraits t{.name = n[0], .inputs = Names("x1", "x2"), .inplace = 0, .pointwise = true, .any_layout = true};
  if (n.size() > 1) t.aliases = Names(n[1]);
  t.in_mxnet = n.size() > 1;
  return t;
}
constexpr OpTraits real_scalar_traits(RealKind kind, bool reversed) {
  switch (kind) {
    case RealKind::arctan2: return {.name = reversed ? "_npi_rarctan2_scalar" : "_npi_arctan2_scalar"};
    case RealKind::copysign: return {.name = reversed ? "_npi_rcopysign_scalar" : "_npi_copysign_scalar"};
    default: return {.name = reversed ? "_npi_rldexp_scalar" : "_npi_ldexp_scalar"};
  }
}
KAON_API void infer_real(RealKind kind, InferContext& c);
KAON_API void grad_real(RealKind kind, GradContext& g);
KAON_API void run_real(RealKind kind, KernelContext& c);
void run_real_cuda(RealKind kind, KernelContext& c);
}  // namespace ops

namespace op {
template <ops::RealKind K>
struct Real {
  static constexpr OpTraits traits = ops::real_traits(K);
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_real(K, c); }
  void grad(GradContext& g) const { ops::grad_real(K, g); }
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};
using Arctan2 = Real<ops::RealKind::arctan2>;
using Copysign = Real<ops::RealKind::copysign>;
using Fmod = Real<ops::RealKind::fmod>;
using Fmax = Real<ops::RealKind::fmax>;
using Fmin = Real<ops::RealKind::fmin>;
using Ldexp = Real<ops::RealKind::ldexp>;

// The same of an array and a number, or, `Reversed`, of a number and an array.
template <ops::RealKind K, bool Reversed>
struct RealScalar {
  double scalar = 1;
  bool is_int = true;
  static constexpr OpTraits traits = ops::real_scalar_traits(K, Reversed);
  static constexpr void fields(auto field) {
    field("scalar", &RealScalar::scalar);
    field("is_int", &RealScalar::is_int);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using Arctan2Scalar = RealScalar<ops::RealKind::arctan2, false>;
using RArctan2Scalar = RealScalar<ops::RealKind::arctan2, true>;
using CopysignScalar = RealScalar<ops::RealKind::copysign, false>;
using RCopysignScalar = RealScalar<ops::RealKind::copysign, true>;
using LdexpScalar = RealScalar<ops::RealKind::ldexp, false>;
using RLdexpScalar = RealScalar<ops::RealKind::ldexp, true>;

// lhs / rhs, broadcasting; arrays of several dtypes are cast to result_type first, then integers and bool to float32.
struct TrueDivide {
  static constexpr OpTraits traits{.name = "_npi_true_divide", .inputs = ops::Names("lhs", "rhs")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The same of an array and a number, or, `Reversed`, of a number and an array.
template <bool Reversed>
struct TrueDivideByScalar {
  double scalar = 1;
  bool is_int = true;
  static constexpr OpTraits traits{.name = Reversed ? "_npi_rtrue_divide_scalar" : "_npi_true_divide_scalar"};
  static constexpr void fields(auto field) {
    field("scalar", &TrueDivideByScalar::scalar);
    field("is_int", &TrueDivideByScalar::is_int);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
using TrueDivideScalar = TrueDivideByScalar<false>;
using RTrueDivideScalar = TrueDivideByScalar<true>;

// floor(lhs / rhs), broadcasting; of integers exact, 0 for a divisor of 0. By way of the remainder, so that 1 by 0.1 is
// 9; as in NumPy, -1 by infinity is -1, and infinity by a number is none. Numbers.
struct FloorDivide {
  static constexpr OpTraits traits{.name = "floor_divide", .inputs = ops::Names("lhs", "rhs"), .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op
template <ops::RealKind K>
void run_cpu(const op::Real<K>&, KernelContext& c) {
  ops::run_real(K, c);
}
template <ops::RealKind K>
void run_cuda(const op::Real<K>&, KernelContext& c) {
  ops::run_real_cuda(K, c);
}

}  // namespace kaon
