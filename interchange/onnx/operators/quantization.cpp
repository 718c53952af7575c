// Quantised models: integers x stand for (x - zero point) scale.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/convolutions.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/operators/integer_layers.h"
#include "kaon/interchange/onnx/operators/types.h"

namespace kaon::onnx::convert {

namespace {

struct Range {
  double low, high;
};

std::optional<Range> range_of(ElementType type) {
  switch (type) {
    case ElementType::int8: return Range{-128, 127};
    case ElementType::uint8: return Range{0, 255};
    case ElementType::int16: return Range{-32768, 32767};
    case ElementType::uint16: return Range{0, 65535};
    case ElementType::int4: return Range{-8, 7};
    case ElementType::uint4: return Range{0, 15};
    case ElementType::int2: return Range{-2, 1};
    case ElementType::uint2: return Range{0, 3};
    case ElementType::int32: return Range{-2147483648.0, 2147483647.0};
    default: return std::nullopt;
  }
}

// Scales and zero points beside x: one for all, one for each index of the axis, or one for each block along it.
Symbol beside(const Call& c, const Symbol& s, const Shape& x, int64_t block) {
  const Shape& own = shape_of(s);
  if (own.size() == 1 && own.ndim() <= 1) return reshaped(s, Shape::filled(x.ndim(), 1));
  const int axis = c.axis("axis", 1, x.ndim());
  if (own.ndim() <= 1) return per_channel(s, x.ndim(), axis);
  if (block == 0 && own == x) return s;
  // blocks: each number is repeated along the axis
  if (block == 0) block = (x[axis] + own[axis] - 1) / std::max<int64_t>(1, own[axis]);
  return slice_along(sym.repeat(s, int(block), axis), axis, 0, x[axis]);
}

Symbol rounded_to(const Symbol& numbers, const Range& range) { return sym.clip(numbers, range.low, range.high); }

// x, scale, zero point
void quantize_linear(Call& c) {
  ElementType type = ElementType(c.integer("output_dtype", 0));
  if (c.has(2)) type = c.type(2);
  if (type == ElementType::undefined) type = ElementType::uint8;
  const bool joins =
      c.input(0).layer || (computes_integers() && c.dtype() == DType::float32 && !c.input(0).is_constant());
  if (joins && c.integer("precision", 0) == 0 && (type == ElementType::int8 || type == ElementType::uint8)) {
    const auto is_one = [&](int i) { return c.input(i).is_constant() && c.shape(i).size() == 1; };
    if (c.type(1) == ElementType::float32 && is_one(1) && (!c.has(2) || is_one(2)) && c.number(1) > 0) {
      const int64_t zero = c.has(2) ? c.integers(2)[0] : 0;
      const DType out = *format::dtype_of(type);
      return c.set(Value::of(c.input(0).layer ? as_levels(*c.input(0).layer, out, c.number(1), zero)  // by the layer
                                              : quantised(c.x(), out, c.number(1), zero),
                             type));
    }
  }
  const int64_t block = c.integer("block_size", 0);
  ElementType precision = ElementType(c.integer("precision", 0));
  DType wide = DType::float32;
  if (precision == ElementType::float64 || c.dtype() == DType::float64) wide = DType::float64;
  const auto division = format::dtype_of(precision);
  const Value scale = decoded(c, c.input(1));
  Symbol x = c.x(), s = scale.symbol;
  // the division is made in the precision of x, or as the attribute says
  const DType at = division ? *division : dtype_of(s);
  Symbol y = sym.broadcast_div(cast(x, at), beside(c, cast(s, at), c.shape(), block));
  y = cast(y, wide);
  const auto range = range_of(type);
  if (range) {
    y = sym.around(y);
    if (c.has(2)) y = sym.broadcast_add(y, beside(c, cast(decoded(c, c.input(2)).symbol, wide), c.shape(), block));
    y = rounded_to(y, *range);
  }
  y = reshaped(y, c.shape());
  Value numbers = Value::of(y);
  if (format::is_coded(type)) return c.set(encoded(c, numbers, type, c.integer("saturate", 1) != 0));
  c.set(Value::of(cast(y, *format::dtype_of(type)), type));
}

void dequantize_linear(Call& c) {
  const Value x = decoded(c, c.input(0)), scale = decoded(c, c.input(1));
  const int64_t block = c.integer("block_size", 0);
  ElementType type = ElementType(c.integer("output_dtype", 0));
  if (type == ElementType::undefined) type = c.type(1);
  const DType out = format::dtype_of(type).value_or(DType::float32);
  std::shared_ptr<const Levels> levels;
  if (block == 0 && type == ElementType::float32 && c.rank() > 0) {
    levels = levels_of(c, 0, 1, 2, c.shape(1).size() == 1 ? 0 : c.axis("axis", 1, c.rank()));
  }
  if (levels && computes_integers() && !c.input(0).is_constant() && levels->scale.size() == 1 &&
      levels->zero.size() == 1 && c.type(1) == ElementType::float32) {
    Value made = Value::of(dequantised(*levels), type);
    made.levels = std::move(levels);
    return c.set(made);
  }
  const DType wide = out == DType::float64 || c.dtype() == DType::int32 ? DType::float64 : DType::float32;
  Symbol y = cast(x.symbol, wide);
  if (c.has(2)) y = sym.broadcast_sub(y, beside(c, cast(decoded(c, c.input(2)).symbol, wide), c.shape(), block));
  y = sym.broadcast_mul(y, beside(c, cast(scale.symbol, wide), c.shape(), block));
  Value made = Value::of(cast(reshaped(y, c.shape()), out), type);
  made.levels = std::move(levels);
  c.set(made);
}

// uint8 levels of x over its own range, which 0 is in; scale and zero point
void dynamic_quantize_linear(Call& c) {
  const Symbol flat = reshaped(c.x(), Shape(c.shape().size()));
  const Symbol low = sym.minimum(sym.min(flat), 0), high = sym.maximum(sym.max(flat), 0);
  const Symbol range = (high - low) / 255;
  const Symbol scale = range + (range == 0);  // all zeros: any scale
  const Symbol zero = sym.clip(sym.around(low * -1 / scale), 0, 255);
  const Symbol y = sym.clip(sym.broadcast_add(sym.around(sym.broadcast_div(flat, scale)), zero), 0, 255);
  c.set(0, cast(reshaped(y, c.shape()), DType::uint8));
  c.set(1, reshaped(scale, Shape()));
  c.set(2, cast(reshaped(zero, Shape()), DType::uint8));
}

// Whole numbers of products: float32 holds sums below 2^24 exactly, float64 all of int32.
Symbol minus_zero(const Call& c, int x, int zero, DType wide, int axis) {
  Symbol y = cast(c.x(x), wide);
  if (!c.has(zero)) return y;
  Symbol z = cast(c.x(zero), wide);
  const Shape& s = shape_of(z);
  if (s.size() == 1) z = reshaped(z, Shape(1));
  else if (s.ndim() == 1) z = per_channel(z, c.rank(x), axis < 0 ? c.rank(x) + axis : axis);
  return sym.broadcast_sub(y, z);
}

// The layer's sums as they are.
void set_sums(Call& c, const IntegerLayer& layer) { c.set(layer.make(DType::int32, layer.scale, 0, false)); }

// Rounded, in the dtype of the result, whose scale and zero point are known; null: as above.
bool set_levels(Call& c, const std::shared_ptr<const IntegerLayer>& layer, int scale, int zero) {
  const ElementType type = c.has(zero) ? c.type(zero) : c.type(0);
  const auto is_one = [&](int i) { return !c.has(i) || (c.input(i).is_constant() && c.shape(i).size() == 1); };
  if (!layer || !is_one(scale) || !is_one(zero) || (type != ElementType::int8 && type != ElementType::uint8)) {
    return false;
  }
  const int64_t moved = c.has(zero) ? c.integers(zero)[0] : 0;
  c.set(Value::of(as_levels(*layer, *format::dtype_of(type), c.number(scale), moved), type));
  return true;
}

void matmul_integer(Call& c) {
  const bool moves = c.has(2) && !c.input(2).is_constant() && c.shape(2).size() == 1;  // by a computed zero point
  const auto layer = integer_product(c, levels_of(c, 0, -1, moves ? -1 : 2, 0), levels_of(c, 1, -1, 3, 1), false, {});
  if (layer && moves) {
    std::vector<double> sums(layer->weight_sums.begin(), layer->weight_sums.end());
    const Symbol zero = cast(reshaped(c.x(2), Shape(1)), DType::int32);
    const Symbol moved = sym.broadcast_mul(constant(sums, Shape(int64_t(sums.size())), DType::int32), zero);
    return c.set(sym.broadcast_sub(layer->make(DType::int32, layer->scale, 0, false), moved));
  }
  if (layer) return set_sums(c, *layer);
  const Symbol a = minus_zero(c, 0, 2, DType::float64, -2), b = minus_zero(c, 1, 3, DType::float64, -1);
  c.set(cast(matmul(a, b), DType::int32));
}

// a, scale, zero, b, scale, zero, scale and zero of the result
void qlinear_matmul(Call& c) {
  const auto layer = integer_product(c, levels_of(c, 0, 1, 2, 0), levels_of(c, 3, 4, 5, 1), false, {});
  if (set_levels(c, layer, 6, 7)) return;
  const Symbol a = minus_zero(c, 0, 2, DType::float64, -2), b = minus_zero(c, 3, 5, DType::float64, -1);
  const auto scale = [&](int i, int axis, int rank) {
    const Symbol s = cast(c.x(i), DType::float64);
    if (shape_of(s).size() == 1) return reshaped(s, Shape(1));
    return shape_of(s).ndim() == 1 ? per_channel(s, rank, rank + axis) : s;
  };
  const Symbol product = matmul(a, b);
  const int rank = std::max(2, rank_of(product));
  Symbol y = sym.broadcast_mul(sym.broadcast_mul(product, scale(1, -2, rank)), scale(4, -1, rank));
  y = sym.around(sym.broadcast_div(y, scale(6, -2, rank)));
  if (c.has(7)) {
    const Symbol zero = cast(c.x(7), DType::float64);
    y = sym.broadcast_add(y, shape_of(zero).size() == 1   ? reshaped(zero, Shape(1))
                             : shape_of(zero).ndim() == 1 ? per_channel(zero, rank, rank - 2)
                                                          : zero);
  }
  const ElementType type = c.has(7) ? c.type(7) : c.type(0);
  c.set(Value::of(cast(reshaped(rounded_to(y, *range_of(type)), shape_of(product)), *format::dtype_of(type)), type));
}

void conv_integer(Call& c) {
  if (const auto layer = integer_convolution(c, levels_of(c, 0, -1, 2, 1), levels_of(c, 1, -1, 3, 0), {})) {
    return set_sums(c, *layer);
  }
  const Symbol x = minus_zero(c, 0, 2, DType::float32, 1), w = minus_zero(c, 1, 3, DType::float32, 0);
  c.set(cast(sym.around(convolution(c, x, w)), DType::int32));
}

// x, scale, zero, w, scale, zero, scale and zero of the result, bias in units of both scales
void qlinear_conv(Call& c) {
  if (!c.has(8) || c.input(8).is_constant()) {
    const auto x = levels_of(c, 0, 1, 2, 1), w = levels_of(c, 3, 4, 5, 0);
    std::vector<double> bias;
    if (x && w && c.has(8)) bias = c.numbers(8);
    for (size_t i = 0; i < bias.size(); ++i) bias[i] *= x->scale[0] * w->scale[w->scale.size() > 1 ? i : 0];
    if (set_levels(c, integer_convolution(c, x, w, bias), 6, 7)) return;
  }
  const Symbol x = minus_zero(c, 0, 2, DType::float32, 1), w = minus_zero(c, 3, 5, DType::float32, 0);
  Symbol y = sym.around(convolution(c, x, w));
  const int rank = rank_of(y);
  const auto number = [&](int i) {
    const Symbol s = cast(c.x(i), DType::float32);
    return shape_of(s).size() == 1 ? reshaped(s, Shape(1)) : per_channel(s, rank);
  };
  if (c.has(8)) y = sym.broadcast_add(y, number(8));
  y = sym.broadcast_mul(y, sym.broadcast_div(sym.broadcast_mul(number(1), number(4)), number(6)));
  y = sym.around(y);
  if (c.has(7)) y = sym.broadcast_add(y, number(7));
  const ElementType type = c.has(7) ? c.type(7) : c.type(0);
  c.set(Value::of(cast(rounded_to(y, *range_of(type)), *format::dtype_of(type)), type));
}

constexpr Row quantization_table[] = {
    {"QuantizeLinear", quantize_linear},
    {"DequantizeLinear", dequantize_linear},
    {"DynamicQuantizeLinear", dynamic_quantize_linear},
    {"MatMulInteger", matmul_integer},
    {"QLinearMatMul", qlinear_matmul},
    {"ConvInteger", conv_integer},
    {"QLinearConv", qlinear_conv},
};

}  // namespace

std::span<const Row> quantization_rows() { return quantization_table; }

}  // namespace kaon::onnx::convert
