// Products of matrices.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/operators/integer_layers.h"

namespace kaon::onnx::convert {

namespace {

Shape product_shape(Shape a, Shape b) {
  const bool row = a.ndim() == 1, column = b.ndim() == 1;
  if (row) a = Shape(1, a[0]);
  if (column) b = Shape(b[0], 1);
  Shape lead_a, lead_b;
  for (int i = 0; i + 2 < a.ndim(); ++i) lead_a.push_back(a[i]);
  for (int i = 0; i + 2 < b.ndim(); ++i) lead_b.push_back(b[i]);
  Shape s = ops::broadcast_shapes(lead_a, lead_b, "MatMul");
  if (!row) s.push_back(a[a.ndim() - 2]);
  if (!column) s.push_back(b.back());
  return s;
}

}  // namespace

Symbol matmul(const Symbol& a, const Symbol& b) {
  return reshaped(sym.matmul(a, b), product_shape(shape_of(a), shape_of(b)));
}

Symbol dense(const Symbol& a, const Symbol& b_transposed, const Symbol* bias) {
  const op::FullyConnected op{.num_hidden = int(shape_of(b_transposed)[0]), .flatten = false};
  return bias ? sym.FullyConnected(a, b_transposed, *bias, op) : sym.FullyConnected(a, b_transposed, op);
}

namespace {

// The transpose of input i, a matrix that the model says; undefined for others.
Symbol turned_weight(const Call& c, int i) {
  const Value& w = c.input(i);
  if (w.turned.defined()) return w.turned;
  if (w.is_constant() && c.rank(i) == 2) return Symbol::constant(nd.transpose(w.known));
  return {};
}

// Throws ShapeError where the factors do not fit, in their shapes as the file has them: a layer's weight is kept
// transposed.
void check_factors(const Call& c, int64_t a, int64_t b) {
  if (a == b) return;
  const auto text = [&](int i) {
    const auto& names = c.node().inputs;  // empty of a part of another operator
    return fmt::format("'{}' of shape {}", size_t(i) < names.size() ? names[size_t(i)] : "", c.shape(i).str());
  };
  throw ShapeError(fmt::format("[onnx] {}: expected factors whose inner dimensions agree, got {} and {}, of {} and {}",
                               c.node().op_type, a, b, text(0), text(1)));
}

void matmul_node(Call& c) {
  if (c.rank(0) > 0 && c.rank(1) > 0) check_factors(c, c.shape(0).back(), c.shape(1)[std::max(c.rank(1) - 2, 0)]);
  if (const auto layer = integer_product(c, false)) return set_numbers(c, layer);
  const bool is_layer =
      is_floating(c.dtype()) && c.rank(0) >= 2 && c.rank(1) == 2 && c.shape(0).size() > 0 && c.shape(1).size() > 0;
  const Symbol w = is_layer ? turned_weight(c, 1) : Symbol();
  c.set(w.defined() ? dense(c.x(0), w) : matmul(c.x(0), c.x(1)));
}

// alpha op(a) op(b) + beta c
void gemm(Call& c) {
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  const bool ta = c.integer("transA", 0) != 0, tb = c.integer("transB", 0) != 0;
  if (c.rank(0) != 2 || c.rank(1) != 2) c.fail("a and b must be matrices");
  check_factors(c, c.shape(0)[ta ? 0 : 1], c.shape(1)[tb ? 1 : 0]);
  if (alpha == 1 && beta == 1 && !ta) {
    if (const auto layer = integer_product(c, tb)) return set_numbers(c, layer);
  }
  Symbol a = ta ? sym.transpose(c.x(0)) : c.x(0);
  const int64_t columns = c.shape(1)[tb ? 0 : 1];
  const bool is_bias =
      c.has(2) && beta == 1 && c.shape(2).size() == columns && c.shape(2).ndim() >= 1 && c.shape(2).back() == columns;
  if (is_floating(c.dtype()) && alpha == 1 && shape_of(a).size() > 0 && columns > 0) {
    Symbol w = tb ? c.x(1) : turned_weight(c, 1);
    if (!w.defined()) w = sym.transpose(c.x(1));
    if (is_bias) {
      const Symbol bias = reshaped(c.x(2), Shape(columns));
      return c.set(dense(a, w, &bias));
    }
    Symbol y = dense(a, w);
    if (c.has(2)) y = sym.broadcast_add(y, beta == 1 ? c.x(2) : c.x(2) * beta);
    return c.set(y);
  }
  Symbol y = sym.matmul(a, tb ? sym.transpose(c.x(1)) : c.x(1));
  if (alpha != 1) y = y * alpha;
  if (c.has(2)) y = sym.broadcast_add(y, beta == 1 ? c.x(2) : c.x(2) * beta);
  c.set(y);
}

void einsum(Call& c) {
  std::string equation = c.text("equation", "");
  std::erase(equation, ' ');
  std::vector<Symbol> arrays;
  for (int i = 0; i < c.count(); ++i) arrays.push_back(c.x(i));
  Symbol y = sym.einsum(equation, std::span<const Symbol>(arrays));
  // a result without axes has the shape (1,) in Kaon
  const size_t arrow = equation.find("->");
  bool is_scalar = arrow != std::string::npos && arrow + 2 == equation.size();
  if (arrow == std::string::npos) {  // the letters that occur once
    is_scalar = equation.find('.') == std::string::npos && std::ranges::none_of(equation, [&](char ch) {
                  return ch != ',' && std::ranges::count(equation, ch) == 1;
                });
  }
  if (is_scalar) y = reshaped(y, Shape());
  c.set(y);
}

void det(Call& c) {
  Shape s;
  for (int i = 0; i + 2 < c.rank(); ++i) s.push_back(c.shape()[i]);
  c.set(reshaped(sym.linalg_det(c.x()), s));
}

constexpr Row product_table[] = {
    {"MatMul", matmul_node},
    {"Gemm", gemm},
    {"Einsum", einsum},
    {"Det", det},
};

}  // namespace

std::span<const Row> product_rows() { return product_table; }

}  // namespace kaon::onnx::convert
