// Operators of quantised files that ONNX Runtime has beside the standard's: each is the standard's operator between
// DequantizeLinear and QuantizeLinear, so that layers of whole numbers are found as in files that say it so.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/runtime/standard.h"

namespace kaon::onnx::convert {

namespace {

// a, scale, zero, b, scale, zero, scale and zero of the result
void qlinear_binary(Call& c, std::string_view op_type) {
  c.set(quantised(c, standard(c, op_type, {dequantised(c, 0), dequantised(c, 3)}), 6));
}

// x, scale, zero, scale and zero of the result
void qlinear_unary(Call& c, std::string_view op_type, std::vector<format::Attribute> attributes) {
  c.set(quantised(c, standard(c, op_type, {dequantised(c, 0)}, std::move(attributes)), 3));
}

void qlinear_leaky(Call& c) { qlinear_unary(c, "LeakyRelu", {attribute("alpha", c.real("alpha", 0.01f))}); }

// `opset` is the version of the standard's Softmax that is meant: before 13 all axes from this one on are normalised.
void qlinear_softmax(Call& c) {
  const int axis = c.axis("axis", -1, c.rank());
  const Value x = dequantised(c, 0);
  if (c.integer("opset", 13) >= 13) {
    return c.set(quantised(c, standard(c, "Softmax", {x}, {attribute("axis", int64_t(axis))}), 3));
  }
  const Shape rows(c.shape().product(0, axis), c.shape().product(axis, c.rank()));
  const Value y = standard(c, "Softmax", {Value::of(reshaped(x.symbol, rows))}, {attribute("axis", int64_t(1))});
  c.set(quantised(c, Value::of(reshaped(y.symbol, c.shape())), 3));
}

// The axis of the channels behind the batch, or at the end.
Value with_channels(const Value& x, bool last, bool to_last) {
  const int rank = rank_of(x.symbol);
  if (!last || rank < 3) return x;
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  const auto channels = axes.begin() + 1;
  if (to_last) std::rotate(channels, channels + 1, axes.end());
  else std::rotate(channels, axes.end() - 1, axes.end());
  return Value::of(transposed(x.symbol, axes));
}

void qlinear_pool(Call& c, std::string_view op_type) {
  const bool last = c.integer("channels_last", 0) != 0;
  const Value y =
      standard(c, op_type, {with_channels(dequantised(c, 0), last, false)},
               same_attributes(c, {"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"}));
  c.set(quantised(c, with_channels(y, last, true), 3));
}

// scale and zero of the result, then each part with its own
void qlinear_concat(Call& c) {
  if (c.count() < 5 || (c.count() - 2) % 3 != 0) {
    c.fail(fmt::format("2 inputs and 3 for each part expected, got {}", c.count()));
  }
  std::vector<Value> parts;
  bool is_same = true;  // levels of one meaning are put together as they are
  const auto equals = [&](int i, int j) {
    return c.input(i).is_constant() && c.input(j).is_constant() && c.shape(i).size() == 1 && c.shape(j).size() == 1 &&
           c.type(i) == c.type(j) && c.number(i) == c.number(j);
  };
  for (int i = 2; i < c.count(); i += 3) is_same = is_same && equals(i + 1, 0) && equals(i + 2, 1);
  for (int i = 2; i < c.count(); i += 3) parts.push_back(is_same ? c.input(i) : dequantised(c, i));
  const Value y = standard(c, "Concat", parts, same_attributes(c, {"axis"}));
  c.set(is_same ? Value::of(y.symbol, c.type(2)) : quantised(c, y, 0, 2));
}

// condition, x, scale, zero, y, scale, zero, scale and zero of the result
void qlinear_where(Call& c) {
  c.set(quantised(c, standard(c, "Where", {c.input(0), dequantised(c, 1), dequantised(c, 4)}), 7, 1));
}

// A scale times another number, a constant where both are known.
Value scaled_by(const Call& c, int i, double factor) {
  if (factor == 1) return c.input(i);
  if (!c.input(i).is_constant()) return Value::of(c.x(i) * factor);
  std::vector<double> all = c.numbers(i);
  for (double& s : all) s *= factor;
  return Value::constant(NDArray::from(all.data(), all.size(), c.shape(i), c.dtype(i)));
}

// a, scale, zero, b, scale, zero, whole numbers c in units of both scales, scale and zero of the result, which is of
// floating numbers without them
void qgemm(Call& c) {
  const bool tb = c.integer("transB", 0) != 0;
  const Value a_scale = scaled_by(c, 1, c.real("alpha", 1));
  const Value a = standard(c, "DequantizeLinear", {c.input(0), a_scale, optional_input(c, 2)});
  std::vector<Value> inputs{a, dequantised(c, 3, tb ? 0 : 1)};
  if (c.has(6)) {
    const bool is_known = c.input(6).is_constant() && a_scale.is_constant() && c.input(4).is_constant();
    if (is_known && a_scale.known.size() == 1 && c.rank(6) <= 1) {
      std::vector<double> bias = c.numbers(6);
      const std::vector<double> b = c.numbers(4);
      const double unit = a_scale.known.asvector<double>()[0];
      if (b.size() != 1 && b.size() != bias.size()) {
        c.fail(fmt::format("{} scales of b for {} numbers of c", b.size(), bias.size()));
      }
      for (size_t i = 0; i < bias.size(); ++i) bias[i] *= unit * b[b.size() > 1 ? i : 0];
      inputs.push_back(Value::constant(NDArray::from(bias.data(), bias.size(), c.shape(6), DType::float32)));
    } else {
      const Symbol unit =
          sym.broadcast_mul(reshaped(a_scale.symbol, Shape(1)), reshaped(c.x(4), Shape(shape_of(c.x(4)).size())));
      inputs.push_back(Value::of(sym.broadcast_mul(cast(c.x(6), DType::float32), unit)));
    }
  }
  std::vector<format::Attribute> attributes = same_attributes(c, {"transA", "transB"});
  const Value y = standard(c, "Gemm", inputs, std::move(attributes));
  c.set(c.has(7) ? quantised(c, y, 7) : y);
}

// The product of levels as floating numbers, with scales by column of b, and a bias.
void set_float_product(Call& c, const Value& a, const Value& b, const Value& a_zero, const Value& b_zero,
                       const Symbol& a_scale, const Symbol& b_scale, const Value& bias) {
  const Value sums = standard(c, "MatMulInteger", {a, b, a_zero, b_zero});
  const auto by_column = [](const Symbol& s) {
    const Shape& shape = shape_of(s);
    return shape.size() == 1 ? reshaped(s, Shape(1)) : s;  // (n,), or (1, n) and more beside products of many matrices
  };
  const Symbol unit = sym.broadcast_mul(by_column(a_scale), by_column(b_scale));
  Symbol y = sym.broadcast_mul(cast(sums.symbol, dtype_of(unit)), unit);
  if (bias.kind != Value::Kind::nothing) y = sym.broadcast_add(y, bias.symbol);
  c.set(y);
}

// a, b, scales of both, zero points of both, bias
void integer_to_float(Call& c) {
  set_float_product(c, c.input(0), c.input(1), optional_input(c, 4), optional_input(c, 5), c.x(2), c.x(3),
                    optional_input(c, 6));
}

// a of floating numbers, b, its scale and zero point, bias
void dynamic_matmul(Call& c) {
  const std::vector<Value> a = standard_all(c, "DynamicQuantizeLinear", {c.input(0)}, {}, 3);
  set_float_product(c, a[0], c.input(1), a[2], optional_input(c, 3), a[1].symbol, c.x(2), optional_input(c, 4));
}

void runtime_quantize(Call& c) {
  std::vector<format::Attribute> attributes = same_attributes(c, {"axis"});
  c.set(standard(c, "QuantizeLinear", {c.input(0), c.input(1), optional_input(c, 2)}, std::move(attributes)));
}

constexpr Row runtime_quantised_table[] = {
    {"QLinearAdd", [](Call& c) { qlinear_binary(c, "Add"); }, 1, kMicrosoft},
    {"QLinearMul", [](Call& c) { qlinear_binary(c, "Mul"); }, 1, kMicrosoft},
    {"QLinearSigmoid", [](Call& c) { qlinear_unary(c, "Sigmoid", {}); }, 1, kMicrosoft},
    {"QLinearLeakyRelu", qlinear_leaky, 1, kMicrosoft},
    {"QLinearSoftmax", qlinear_softmax, 1, kMicrosoft},
    {"QLinearAveragePool", [](Call& c) { qlinear_pool(c, "AveragePool"); }, 1, kMicrosoft},
    {"QLinearGlobalAveragePool", [](Call& c) { qlinear_pool(c, "GlobalAveragePool"); }, 1, kMicrosoft},
    {"QLinearConcat", qlinear_concat, 1, kMicrosoft},
    {"QLinearWhere", qlinear_where, 1, kMicrosoft},
    {"QGemm", qgemm, 1, kMicrosoft},
    {"MatMulIntegerToFloat", integer_to_float, 1, kMicrosoft},
    {"DynamicQuantizeMatMul", dynamic_matmul, 1, kMicrosoft},
    // the standard's, which these were before it had their types
    {"QuantizeLinear", runtime_quantize, 1, kMicrosoft},
    {"DequantizeLinear", [](Call& c) { c.set(dequantised(c, 0, c.integer("axis", 1))); }, 1, kMicrosoft},
};

}  // namespace

std::span<const Row> runtime_quantised_rows() { return runtime_quantised_table; }

}  // namespace kaon::onnx::convert
