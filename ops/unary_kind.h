// The elementwise functions of one argument: their names and the dtypes they take. A light header.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kaon {

// clang-format off
enum class UnaryKind : uint8_t {
  relu, sigmoid, tanh, exp, log, sqrt, rsqrt, square, abs, sign, negative, reciprocal, erf, log1p, expm1, log2, log10,
  sin, cos, tan, arcsin, arccos, arctan, sinh, cosh, arcsinh, arccosh, arctanh, floor, ceil, round, rint, trunc, fix,
  cbrt, rcbrt, softsign, softrelu, gelu, logical_not, degrees, radians, gamma, gammaln, digamma, identity,
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
    {"logical_not", Domain::any}, {"degrees"}, {"radians"}, {"gamma"}, {"gammaln"}, {"digamma", Domain::floating, {}, false},
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

}  // namespace kaon
