// Element by element: functions of one number, arithmetic, comparisons, logic and bits.
#include <limits>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/operators/integer_layers.h"

namespace kaon::onnx::convert {

namespace {

// Operators before version 7 broadcast b at an axis of a, where they say so.
Symbol second(const Call& c) {
  if (c.opset() >= 7 || !c.has("axis")) return c.x(1);
  Shape s = c.shape(1);
  while (c.axis(c.integer("axis", 0), c.rank(0)) + s.ndim() < c.rank(0)) s.push_back(1);
  return reshaped(c.x(1), s);
}

using Pair = Symbol (*)(const Symbol&, const Symbol&);

template <Pair F>
void binary(Call& c) {
  c.set(F(c.x(0), second(c)));
}

void add_pair(Call& c) {
  Value y = Value::of(sym.broadcast_add(c.x(0), second(c)), c.type());
  y.layer = integer_sum(c);
  c.set(y);
}

// A list, combined from left to right.
template <Pair F>
void variadic(Call& c) {
  Symbol y = c.x(0);
  for (int i = 1; i < c.count(); ++i) y = F(y, c.x(i));
  c.set(y);
}

void power(Call& c) {
  const DType dtype = c.dtype(0), other = c.dtype(1);
  const Symbol b = second(c);
  if (dtype == other) return c.set(sym.broadcast_power(c.x(0), b));
  const DType wide = !is_floating(dtype) && is_floating(other) ? DType::float64 : dtype;
  c.set(cast(sym.broadcast_power(cast(c.x(0), wide), cast(b, wide)), dtype));
}

// The remainder, with the sign of the divisor, or of x for fmod; of floats by 0 it is NaN, and 0 has a sign too.
void mod(Call& c) {
  const Symbol &x = c.x(0), &y = c.x(1);
  if (c.integer("fmod", 0) != 0) return c.set(sym.fmod(x, y));
  if (!is_floating(c.dtype())) return c.set(sym.broadcast_mod(x, y));
  const Symbol r = sym.fmod(x, y);
  const Symbol signs_differ = sym.broadcast_not_equal(sym.sign(r), sym.sign(y)) * (r != 0);
  const Symbol moved = sym.broadcast_where(signs_differ, sym.broadcast_add(r, y), r);
  c.set(sym.broadcast_where(r == 0, sym.copysign(r, y), moved));
}

void mean(Call& c) {
  Symbol y = c.x(0);
  for (int i = 1; i < c.count(); ++i) y = sym.broadcast_add(y, c.x(i));
  c.set(y * (1.0 / c.count()));
}

void bit_shift(Call& c) {
  const std::string direction = c.text("direction", "");
  if (direction == "LEFT") return c.set(sym.left_shift(c.x(0), c.x(1)));
  if (direction == "RIGHT") return c.set(sym.right_shift(c.x(0), c.x(1)));
  c.fail("direction must be LEFT or RIGHT, got '" + direction + "'");
}

void is_inf(Call& c) {
  const bool negative = c.integer("detect_negative", 1) != 0, positive = c.integer("detect_positive", 1) != 0;
  if (negative && positive) return c.set(sym.isinf(c.x()));
  if (negative) return c.set(sym.isneginf(c.x()));
  if (positive) return c.set(sym.isposinf(c.x()));
  c.set(cast(sym.zeros_like(c.x()), DType::boolean));
}

void clip(Call& c) {
  if (c.opset() < 11) {
    const double low = c.real("min", -std::numeric_limits<double>::infinity());
    const double high = c.real("max", std::numeric_limits<double>::infinity());
    return c.set(sym.clip(c.x(), low, high));
  }
  const bool has_low = c.has(1), has_high = c.has(2);
  const auto is_number = [&](int i) { return !c.has(i) || (c.input(i).is_constant() && c.shape(i).size() == 1); };
  if (is_floating(c.dtype()) && is_number(1) && is_number(2)) {  // one operator, which plans fuse
    const double low = has_low ? c.number(1) : -std::numeric_limits<double>::infinity();
    const double high = has_high ? c.number(2) : std::numeric_limits<double>::infinity();
    if (low <= high) return c.set(sym.clip(c.x(), low, high));
  }
  Symbol y = c.x();
  if (has_low) y = sym.broadcast_maximum(y, c.x(1));
  if (has_high) y = sym.broadcast_minimum(y, c.x(2));
  c.set(reshaped(y, c.shape()));
}

void where(Call& c) { c.set(Value::of(sym.broadcast_where(c.x(0), c.x(1), c.x(2)), c.type(1))); }

constexpr Pair add = [](const Symbol& a, const Symbol& b) { return sym.broadcast_add(a, b); };
constexpr Pair maximum = [](const Symbol& a, const Symbol& b) { return sym.broadcast_maximum(a, b); };
constexpr Pair minimum = [](const Symbol& a, const Symbol& b) { return sym.broadcast_minimum(a, b); };

void equal(Call& c) {
  if (c.input(0).kind != Value::Kind::strings) return c.set(sym._npi_equal(c.x(0), second(c)));
  Shape shape;
  const std::vector<uint8_t> same = equal_strings(c.input(0), c.input(1), shape);
  c.set(Value::constant(NDArray::from(same.data(), same.size(), shape, DType::boolean)));
}

// Results of logic are bool, whatever the operands are.
Symbol as_bool(const Symbol& x) { return cast(x, DType::boolean); }

constexpr Row elementwise_table[] = {
    {"Abs", [](Call& c) { c.set(sym.abs(c.x())); }},
    {"Neg", [](Call& c) { c.set(sym.negative(c.x())); }},
    {"Sign", [](Call& c) { c.set(sym.sign(c.x())); }},
    {"Ceil", [](Call& c) { c.set(sym.ceil(c.x())); }},
    {"Floor", [](Call& c) { c.set(sym.floor(c.x())); }},
    {"Round", [](Call& c) { c.set(sym.around(c.x())); }},
    {"Exp", [](Call& c) { c.set(sym.exp(c.x())); }},
    {"Log", [](Call& c) { c.set(sym.log(c.x())); }},
    {"Sqrt", [](Call& c) { c.set(sym.sqrt(c.x())); }},
    {"Reciprocal", [](Call& c) { c.set(sym.reciprocal(c.x())); }},
    {"Sin", [](Call& c) { c.set(sym.sin(c.x())); }},
    {"Cos", [](Call& c) { c.set(sym.cos(c.x())); }},
    {"Tan", [](Call& c) { c.set(sym.tan(c.x())); }},
    {"Asin", [](Call& c) { c.set(sym.arcsin(c.x())); }},
    {"Acos", [](Call& c) { c.set(sym.arccos(c.x())); }},
    {"Atan", [](Call& c) { c.set(sym.arctan(c.x())); }},
    {"Sinh", [](Call& c) { c.set(sym.sinh(c.x())); }},
    {"Cosh", [](Call& c) { c.set(sym.cosh(c.x())); }},
    {"Asinh", [](Call& c) { c.set(sym.arcsinh(c.x())); }},
    {"Acosh", [](Call& c) { c.set(sym.arccosh(c.x())); }},
    {"Atanh", [](Call& c) { c.set(sym.arctanh(c.x())); }},
    {"Erf", [](Call& c) { c.set(sym.erf(c.x())); }},
    {"IsNaN", [](Call& c) { c.set(sym.isnan(c.x())); }},
    {"IsInf", is_inf},
    {"Not", [](Call& c) { c.set(as_bool(sym.logical_not(c.x()))); }},
    {"BitwiseNot", [](Call& c) { c.set(sym.bitwise_not(c.x())); }},
    {"Add", add_pair},
    {"Sub", binary<+[](const Symbol& a, const Symbol& b) { return sym.broadcast_sub(a, b); }>},
    {"Mul", binary<+[](const Symbol& a, const Symbol& b) { return sym.broadcast_mul(a, b); }>},
    {"Div", binary<+[](const Symbol& a, const Symbol& b) { return sym.broadcast_div(a, b); }>},
    {"Pow", power},
    {"Mod", mod},
    {"Max", variadic<maximum>},
    {"Min", variadic<minimum>},
    {"Sum", variadic<add>},
    {"Mean", mean},
    {"And", binary<+[](const Symbol& a, const Symbol& b) { return as_bool(sym.broadcast_logical_and(a, b)); }>},
    {"Or", binary<+[](const Symbol& a, const Symbol& b) { return as_bool(sym.broadcast_logical_or(a, b)); }>},
    {"Xor", binary<+[](const Symbol& a, const Symbol& b) { return as_bool(sym.broadcast_logical_xor(a, b)); }>},
    {"Equal", equal},
    {"Greater", binary<+[](const Symbol& a, const Symbol& b) { return sym._npi_greater(a, b); }>},
    {"GreaterOrEqual", binary<+[](const Symbol& a, const Symbol& b) { return sym._npi_greater_equal(a, b); }>},
    {"Less", binary<+[](const Symbol& a, const Symbol& b) { return sym._npi_less(a, b); }>},
    {"LessOrEqual", binary<+[](const Symbol& a, const Symbol& b) { return sym._npi_less_equal(a, b); }>},
    {"BitwiseAnd", binary<+[](const Symbol& a, const Symbol& b) { return sym.bitwise_and(a, b); }>},
    {"BitwiseOr", binary<+[](const Symbol& a, const Symbol& b) { return sym.bitwise_or(a, b); }>},
    {"BitwiseXor", binary<+[](const Symbol& a, const Symbol& b) { return sym.bitwise_xor(a, b); }>},
    {"BitShift", bit_shift},
    {"Clip", clip},
    {"Where", where},
};

}  // namespace

std::span<const Row> elementwise_rows() { return elementwise_table; }

}  // namespace kaon::onnx::convert
