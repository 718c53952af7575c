// Attention and rotary positions as ONNX nodes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/ops/all_ops.h"

namespace kaon::onnx::exporting {

namespace {

std::string range(Emit& e, int64_t n, const Shape& shape, int64_t first = 0) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(double(first + i));
  return e.array(values, shape, DType::int64);
}

// Shared heads of keys or values, repeated.
std::string repeated(Emit& e, int i, int64_t heads) {
  const Shape& s = e.shape(i);
  if (s[1] == heads) return e.in(i);
  const std::string many =
      e.expand(e.reshape(e.in(i), Shape(s[0], s[1], 1, s[2], s[3])), Shape(s[0], s[1], heads / s[1], s[2], s[3]));
  return e.reshape(many, Shape(s[0], heads, s[2], s[3]));
}

// softmax(scale q k^T + mask) v
void attention(Emit& e) {
  const auto& op = e.op<op::ScaledDotProductAttention>();
  const Shape& q = e.shape(0);
  const int64_t n = q[2], m = e.shape(1)[2];
  const double scale = op.scale.value_or(1 / std::sqrt(double(std::max<int64_t>(1, q[3]))));
  const std::string lowest = e.number(-std::numeric_limits<double>::infinity());
  std::string s = e.matmul(e.in(0), e.transpose(repeated(e, 1, q[1]), {0, 1, 3, 2}));
  s = e.mul(s, e.number(scale));
  if (op.use_mask) s = e.dtype(3) == DType::boolean ? e.where(e.in(3), s, lowest) : e.add(s, e.in(3));
  const std::string keys = op.use_valid_length || op.causal != CausalMask::none ? range(e, m, Shape(1, 1, 1, m)) : "";
  std::string length;
  if (op.use_valid_length) {
    const std::string given = e.index(e.count() - 1, IndexMode::clip, m + 1);
    length = e.reshape(given, Shape(q[0], 1, 1, 1));
    s = e.where(e.less(keys, length), s, lowest);
  }
  if (op.causal != CausalMask::none) {  // how far each query may look
    const bool lower = op.causal == CausalMask::lower_right;
    std::string last = range(e, n, Shape(1, 1, n, 1), !lower ? 0 : op.use_valid_length ? -n : m - n);
    if (lower && op.use_valid_length) last = e.add(last, length);
    s = e.where(e.node("LessOrEqual", {keys, last}), s, lowest);
  }
  std::string weights = e.node("Softmax", {s}, {integer("axis", -1)});
  const bool any_lengths = e.builder().has_constants_apart();  // each may be the longer one at other sizes
  if (op.use_mask || op.use_valid_length || (op.causal == CausalMask::lower_right && (n > m || any_lengths))) {
    // a query that may look nowhere
    const std::string best = e.reduce("ReduceMax", s, {3}, true);
    weights = e.where(e.equal(best, lowest), e.number(0), weights);
  }
  e.set(e.matmul(weights, repeated(e, 2, q[1])));
}

// Pairs of numbers turned by angles.
void rotary(Emit& e) {
  const auto& op = e.op<op::RotaryEmbedding>();
  const Shape& s = e.shape();
  const int last = e.rank() - 1;
  const int64_t dims = op.dims == 0 ? s[last] : op.dims, half = dims / 2, length = s[last - 1];
  if (dims == 0) return e.set(e.node("Identity", {e.in()}));
  std::vector<double> speed;
  for (int64_t i = 0; i < half; ++i) speed.push_back(std::pow(op.base, -2.0 * double(i) / double(dims)));
  std::string cosine, sine;
  const bool is_any_length = e.builder().has_constants_apart();
  if (op.use_positions || is_any_length) {
    Shape at = Shape::filled(e.rank(), 1);
    at[last - 1] = length;
    if (op.use_positions && e.rank(1) == 2) at[0] = s[0];
    const DType wide = e.dtype() == DType::float64 ? DType::float64 : DType::float32;
    const std::string given =
        op.use_positions ? e.reshape(e.cast(e.in(1), wide), at) : e.cast(range(e, length, at), wide);
    const std::string p = e.add(given, e.number(op.offset, wide));
    const std::string angle = e.mul(p, e.array(speed, Shape(half), wide));
    cosine = e.cast(e.node("Cos", {angle}), e.dtype());
    sine = e.cast(e.node("Sin", {angle}), e.dtype());
  } else {
    std::vector<double> c, d;
    for (int64_t t = 0; t < length; ++t) {
      for (double v : speed)
        c.push_back(std::cos((op.offset + double(t)) * v)), d.push_back(std::sin((op.offset + double(t)) * v));
    }
    cosine = e.array(c, Shape(length, half), e.dtype());
    sine = e.array(d, Shape(length, half), e.dtype());
  }
  if (op.inverse) sine = e.node("Neg", {sine});
  const int64_t step = op.interleaved ? 2 : 1;
  const std::string x = e.slice(e.in(), last, 0, op.interleaved ? dims : half, step);
  const std::string y = e.slice(e.in(), last, op.interleaved ? 1 : half, dims, step);
  const std::string first = e.sub(e.mul(x, cosine), e.mul(y, sine)), second = e.add(e.mul(x, sine), e.mul(y, cosine));
  std::string turned;
  if (op.interleaved) {
    Shape column = s, row = s;
    column[last] = half, column.push_back(1), row[last] = dims;
    turned = e.reshape(e.concat({e.reshape(first, column), e.reshape(second, column)}, last + 1), row);
  } else {
    turned = e.concat({first, second}, last);
  }
  e.set(dims < s[last] ? e.concat({turned, e.slice(e.in(), last, dims, s[last])}, last) : turned);
}

const WriterRow attention_table[] = {
    {&op::ScaledDotProductAttention::def, attention},
    {&op::RotaryEmbedding::def, rotary},
};

}  // namespace

std::span<const WriterRow> attention_writers() { return attention_table; }

}  // namespace kaon::onnx::exporting
