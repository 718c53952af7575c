// The kinds of elementwise functions: of one argument, of two, and of an array and a number. A light header.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "kaon/engine/api.h"

namespace KAON_API kaon {
namespace ops {

// --- one argument: their names and the dtypes they take

// clang-format off
enum class UnaryKind : uint8_t {
  relu, sigmoid, tanh, exp, log, sqrt, rsqrt, square, abs, sign, negative, reciprocal, erf, log1p, expm1, log2, log10,
  sin, cos, tan, arcsin, arccos, arctan, sinh, cosh, arcsinh, arccosh, arctanh, floor, ceil, round, rint, trunc, fix,
  cbrt, rcbrt, softsign, softrelu, gelu, logical_not, degrees, radians, gamma, gammaln, digamma, erfinv, identity,
  stop_gradient, zeros_like, ones_like
};
// clang-format on
inline constexpr int unary_kinds = int(UnaryKind::ones_like) + 1;

// Which dtypes a function takes besides the floating ones.
enum class Domain : uint8_t { floating, number, any };  // number: integers too; any: integers and bool

struct UnaryInfo {
  std::string_view name;
  Domain domain = Domain::floating;
  std::string_view alias{};
  bool in_mxnet = true;
};

// In the order of UnaryKind.
// clang-format off
inline constexpr std::array<UnaryInfo, size_t(unary_kinds)> unary_table{{
    {"relu", Domain::number}, {"sigmoid"}, {"tanh"}, {"exp"}, {"log"}, {"sqrt"}, {"rsqrt"}, {"square", Domain::number},
    {"abs", Domain::number}, {"sign", Domain::number}, {"negative", Domain::number}, {"reciprocal"},
    {"erf"}, {"log1p"}, {"expm1"}, {"log2"}, {"log10"}, {"sin"}, {"cos"}, {"tan"}, {"arcsin"}, {"arccos"}, {"arctan"},
    {"sinh"}, {"cosh"}, {"arcsinh"}, {"arccosh"}, {"arctanh"}, {"floor", Domain::number}, {"ceil", Domain::number},
    {"round", Domain::number}, {"rint", Domain::number}, {"trunc", Domain::number}, {"fix", Domain::number}, {"cbrt"},
    {"rcbrt"}, {"softsign"}, {"softrelu", Domain::floating, {}, false}, {"gelu", Domain::floating, {}, false},
    {"logical_not", Domain::any}, {"degrees"}, {"radians"}, {"gamma"}, {"gammaln"}, {"digamma", Domain::floating, {}, false}, {"erfinv"},
    {"_copy", Domain::any, "identity"}, {"BlockGrad", Domain::any, "stop_gradient"}, {"zeros_like", Domain::any},
    {"ones_like", Domain::any},
}};
// clang-format on

constexpr const UnaryInfo& info(UnaryKind k) { return unary_table[size_t(k)]; }

// Steps and constants, whose derivative is zero wherever it exists; BlockGrad counts as one.
constexpr bool is_flat(UnaryKind k) {
  using U = UnaryKind;
  return (k >= U::floor && k <= U::fix) || k == U::sign || k == U::logical_not || k >= U::stop_gradient;
}

// Backward operators of unary functions that save a pass over memory: inputs (head, saved), where saved
// is the output of relu, sigmoid and tanh, and the input of gelu.
enum class UnaryBackwardKind : uint8_t { relu, sigmoid, tanh, gelu };
inline constexpr int unary_backward_kinds = 4;

// --- two arguments

// clang-format off
enum class BinaryKind : uint8_t {
  add, sub, mul, div, mod, power, maximum, minimum, hypot, logaddexp,
  equal, not_equal, greater, greater_equal, lesser, lesser_equal, logical_and, logical_or, logical_xor
};
// clang-format on

// --- an array and a number, in terms of those of two arrays

inline constexpr int binary_kinds = int(BinaryKind::logical_xor) + 1;

// True where the result is 0 or 1.
constexpr bool is_logical(BinaryKind k) { return k >= BinaryKind::equal; }

// True where only floating dtypes have the function.
constexpr bool is_real(BinaryKind k) { return k == BinaryKind::logaddexp; }

// clang-format off
enum class ScalarKind : uint8_t {
  plus, minus, rminus, mul, div, rdiv, mod, rmod, power, rpower, maximum, minimum, hypot, equal, not_equal, greater,
  greater_equal, lesser, lesser_equal, logical_and, logical_or, logical_xor, smooth_l1
};
// clang-format on
inline constexpr int scalar_kinds = int(ScalarKind::smooth_l1) + 1;

struct ScalarInfo {
  std::string_view name;
  std::string_view alias;
  BinaryKind kind = BinaryKind::add;
  bool reversed = false;  // number op array
};

// In the order of ScalarKind.
inline constexpr std::array<ScalarInfo, size_t(scalar_kinds)> scalar_table{{
    {"_plus_scalar", "_PlusScalar", BinaryKind::add},
    {"_minus_scalar", "_MinusScalar", BinaryKind::sub},
    {"_rminus_scalar", "_RMinusScalar", BinaryKind::sub, true},
    {"_mul_scalar", "_MulScalar", BinaryKind::mul},
    {"_div_scalar", "_DivScalar", BinaryKind::div},
    {"_rdiv_scalar", "_RDivScalar", BinaryKind::div, true},
    {"_mod_scalar", "_ModScalar", BinaryKind::mod},
    {"_rmod_scalar", "_RModScalar", BinaryKind::mod, true},
    {"_power_scalar", "_PowerScalar", BinaryKind::power},
    {"_rpower_scalar", "_RPowerScalar", BinaryKind::power, true},
    {"_maximum_scalar", "_MaximumScalar", BinaryKind::maximum},
    {"_minimum_scalar", "_MinimumScalar", BinaryKind::minimum},
    {"_hypot_scalar", "_HypotScalar", BinaryKind::hypot},
    {"_equal_scalar", "_EqualScalar", BinaryKind::equal},
    {"_not_equal_scalar", "_NotEqualScalar", BinaryKind::not_equal},
    {"_greater_scalar", "_GreaterScalar", BinaryKind::greater},
    {"_greater_equal_scalar", "_GreaterEqualScalar", BinaryKind::greater_equal},
    {"_lesser_scalar", "_LesserScalar", BinaryKind::lesser},
    {"_lesser_equal_scalar", "_LesserEqualScalar", BinaryKind::lesser_equal},
    {"_logical_and_scalar", "_LogicalAndScalar", BinaryKind::logical_and},
    {"_logical_or_scalar", "_LogicalOrScalar", BinaryKind::logical_or},
    {"_logical_xor_scalar", "_LogicalXorScalar", BinaryKind::logical_xor},
    {"smooth_l1", {}, BinaryKind::add},
}};

constexpr const ScalarInfo& info(ScalarKind k) { return scalar_table[size_t(k)]; }

// Is there a function of an array and a number?
constexpr bool has_scalar_kind(BinaryKind kind) {
  for (int i = 0; i < scalar_kinds; ++i) {
    if (scalar_table[size_t(i)].kind == kind) return true;
  }
  return false;
}

// That function (`reversed`: of a number and an array).
constexpr ScalarKind scalar_kind(BinaryKind kind, bool reversed) {
  using B = BinaryKind;
  if (reversed) {  // the mirrored comparison; the rest of the symmetric functions need nothing
    switch (kind) {
      case B::sub: return ScalarKind::rminus;
      case B::div: return ScalarKind::rdiv;
      case B::mod: return ScalarKind::rmod;
      case B::power: return ScalarKind::rpower;
      case B::greater: return ScalarKind::lesser;
      case B::greater_equal: return ScalarKind::lesser_equal;
      case B::lesser: return ScalarKind::greater;
      case B::lesser_equal: return ScalarKind::greater_equal;
      default: break;
    }
  }
  for (int i = 0; i < scalar_kinds; ++i) {
    if (scalar_table[size_t(i)].kind == kind && !scalar_table[size_t(i)].reversed) return ScalarKind(i);
  }
  return ScalarKind::plus;
}

}  // namespace ops
}  // namespace kaon
