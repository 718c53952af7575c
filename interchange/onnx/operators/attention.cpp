// Attention and what belongs to it: rotary positions, linear attention, causal convolutions.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// (batch, steps, heads d) as (batch, heads, steps, d).
Symbol split_heads(const Call& c, const Symbol& x, int64_t heads) {
  const Shape& s = shape_of(x);
  if (heads < 1 || s[2] % heads != 0) c.fail(fmt::format("{} heads for shape {}", heads, s.str()));
  return transposed(reshaped(x, Shape(s[0], s[1], heads, s[2] / heads)), {0, 2, 1, 3});
}

Symbol join_heads(const Symbol& x) {
  const Shape& s = shape_of(x);
  return reshaped(transposed(x, {0, 2, 1, 3}), Shape(s[0], s[2], s[1] * s[3]));
}

// Heads h to h / group of keys or values repeated for each query head.
Symbol repeat_heads(const Symbol& x, int64_t heads) {
  const int64_t own = shape_of(x)[1];
  return own == heads || own == 0 ? x : sym.repeat(x, int(heads / own), 1);
}

Symbol numbers(int64_t n, const Shape& shape, DType dtype) {
  std::vector<double> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return constant(v, shape, dtype);
}

// What attention is asked for, besides queries, keys and values.
struct Request {
  double scale = 1, cap = 0;
  bool causal = false;
  int64_t left = -1, right = -1, past = 0;
  Symbol mask, lengths;  // undefined: none. Masks broadcast to (batch, heads, n, m); lengths (batch,)
  DType softmax = DType::float32;
};

struct Scores {
  Symbol raw, capped, biased, probabilities;
};

// The scores of each step (batch, heads, n, m), for models that look at them or bound them.
Scores scores_of(const Symbol& q, const Symbol& k, const Request& r) {
  const DType dtype = dtype_of(q);
  const int64_t n = shape_of(q)[2], m = shape_of(k)[2];
  Scores s;
  s.raw = sym.matmul(q, transposed(k, {0, 1, 3, 2})) * r.scale;
  s.capped = r.cap > 0 ? sym.tanh(s.raw * (1 / r.cap)) * r.cap : s.raw;
  // which keys a query may see, from positions
  Symbol allowed;
  const auto allow = [&](const Symbol& which) {
    allowed = allowed.defined() ? sym.broadcast_mul(allowed, which) : which;
  };
  const Symbol i = numbers(n, Shape(1, 1, n, 1), DType::float32), j = numbers(m, Shape(1, 1, 1, m), DType::float32);
  Symbol length;
  if (r.lengths.defined()) {
    length = reshaped(cast(r.lengths, DType::float32), Shape(shape_of(q)[0], 1, 1, 1));
    allow(sym.broadcast_lesser(j, length));
  }
  if (r.causal || r.left >= 0 || r.right >= 0) {
    const Symbol query = length.defined() ? sym.broadcast_add(i, length - double(n)) : i + double(r.past);
    const Symbol ahead = sym.broadcast_sub(j, query);
    if (r.causal) allow(ahead <= 0);
    if (r.left >= 0) allow(ahead >= -double(r.left));
    if (r.right >= 0) allow(ahead <= double(r.right));
  }
  s.biased = s.capped;
  Symbol bias;
  if (r.mask.defined()) {
    if (dtype_of(r.mask) == DType::boolean) allow(cast(r.mask, DType::float32));
    else bias = cast(r.mask, dtype);
  }
  if (allowed.defined()) {
    const Symbol nothing = constant({kNone}, Shape(1), dtype);
    bias = sym.broadcast_where(allowed, bias.defined() ? bias : constant({0.0}, Shape(1), dtype), nothing);
  }
  if (!bias.defined()) {
    s.probabilities = cast(sym.softmax(cast(s.biased, r.softmax)), dtype);
    return s;
  }
  s.biased = sym.broadcast_add(s.capped, bias);
  const Symbol softmax = sym.softmax(cast(s.biased, r.softmax));
  // a query that may see nothing gets zeros
  const Symbol most = sym.max(bias, {.axis = Shape(rank_of(bias) - 1), .keepdims = true});
  const Symbol nothing = most == kNone;
  s.probabilities = cast(sym.broadcast_where(nothing, constant({0.0}, Shape(1), r.softmax), softmax), dtype);
  return s;
}

// Q, K, V, mask, past key, past value, lengths of the cache that are used
void attention(Call& c) {
  const bool packed = c.rank() == 3;
  Symbol q = c.x(0), k = c.x(1), v = c.x(2);
  if (packed) {
    q = split_heads(c, q, c.integer("q_num_heads", 0));
    k = split_heads(c, k, c.integer("kv_num_heads", 0));
    v = split_heads(c, v, c.integer("kv_num_heads", 0));
  }
  Request r;
  r.past = c.has(4) ? c.shape(4)[2] : 0;
  if (c.has(4)) k = concatenated({c.x(4), k}, 2);
  if (c.has(5)) v = concatenated({c.x(5), v}, 2);
  const DType dtype = dtype_of(q);
  const int64_t heads = shape_of(q)[1], n = shape_of(q)[2], m = shape_of(k)[2];
  r.scale = c.has("scale") ? c.real("scale", 1) : 1 / std::sqrt(double(shape_of(q)[3]));
  r.cap = c.real("softcap", 0);
  r.causal = c.integer("is_causal", 0) != 0;
  r.left = c.integer("left_window_size", -1), r.right = c.integer("right_window_size", -1);
  if (c.has(6)) r.lengths = c.x(6);
  if (c.has(3)) {
    r.mask = c.x(3);
    const Shape& s = shape_of(r.mask);
    if (s.ndim() > 0 && s.back() < m && s.back() > 1) {  // what it does not say is not seen
      std::vector<int64_t> before(size_t(s.ndim())), after = before;
      after.back() = m - s.back();
      const bool is_bool = dtype_of(r.mask) == DType::boolean;
      r.mask = padded(is_bool ? cast(r.mask, DType::uint8) : r.mask, before, after, is_bool ? 0 : kNone);
      if (is_bool) r.mask = cast(r.mask, DType::boolean);
    }
    if (rank_of(r.mask) < 2) r.mask = reshaped(r.mask, Shape(1, shape_of(r.mask).size()));
  }
  const auto precision = format::dtype_of(ElementType(c.integer("softmax_precision", 0)));
  r.softmax = precision ? *precision : dtype;
  Symbol y;
  const bool is_direct = r.cap == 0 && !c.wants(3) && r.left < 0 && r.right < 0 && is_floating(dtype) && n > 0 && m > 0;
  if (is_direct) {
    op::ScaledDotProductAttention op{.scale = r.scale};
    // a query's own position is behind the past, or the last of the cache's
    if (r.causal) op.causal = r.past > 0 || r.lengths.defined() ? CausalMask::lower_right : CausalMask::upper_left;
    const Symbol mask = r.mask.defined() && dtype_of(r.mask) != DType::boolean ? cast(r.mask, dtype) : r.mask;
    const Symbol lengths = r.lengths.defined() ? cast(r.lengths, DType::int64) : Symbol();
    op.use_valid_length = lengths.defined();
    if (mask.defined() && lengths.defined()) y = sym.scaled_dot_product_attention(q, k, v, mask, lengths, op);
    else if (mask.defined()) y = sym.scaled_dot_product_attention(q, k, v, mask, op);
    else if (lengths.defined()) y = sym.scaled_dot_product_attention(q, k, v, lengths, op);
    else y = sym.scaled_dot_product_attention(q, k, v, op);
  } else {
    const Scores s = scores_of(q, repeat_heads(k, heads), r);
    y = sym.matmul(s.probabilities, repeat_heads(v, heads));
    const int64_t mode = c.integer("qk_matmul_output_mode", 0);
    const Symbol& seen = mode == 0 ? s.raw : mode == 1 ? s.capped : mode == 2 ? s.biased : s.probabilities;
    c.set(3, seen);
  }
  c.set(0, packed ? join_heads(y) : y);
  c.set(1, k);
  c.set(2, v);
}

// Q, K, V of four dimensions, with graphs that change scores and probabilities.
void flex_attention(Call& c) {
  const int64_t heads = c.shape()[1];
  const Symbol &q = c.x(0), k = repeat_heads(c.x(1), heads), v = repeat_heads(c.x(2), heads);
  const DType dtype = c.dtype();
  const auto precision = format::dtype_of(ElementType(c.integer("softmax_precision", 0)));
  const DType wide = precision ? *precision : dtype == DType::float64 ? dtype : DType::float32;
  const double scale = c.has("scale") ? c.real("scale", 1) : 1 / std::sqrt(double(shape_of(q)[3]));
  const auto modified = [&](const char* name, const Symbol& x) {
    if (!c.has(std::string_view(name))) return x;
    return c.conversion().convert_graph(c.graph(name), c.conversion().scope(), {Value::of(x)}).at(0).symbol;
  };
  Symbol s = sym.matmul(cast(q, wide), transposed(cast(k, wide), {0, 1, 3, 2})) * scale;
  s = modified("prob_mod", sym.softmax(modified("score_mod", s)));
  c.set(cast(sym.matmul(s, cast(v, wide)), dtype));
}

// X (batch, heads, steps, d) or (batch, steps, heads d), cosines and sines by position or by step, positions
void rotary_embedding(Call& c) {
  const bool packed = c.rank() == 3, interleaved = c.integer("interleaved", 0) != 0;
  const Symbol x = packed ? split_heads(c, c.x(), c.integer("num_heads", 0)) : c.x();
  const Shape s = shape_of(x);
  const int64_t given = c.integer("rotary_embedding_dim", 0), dims = given == 0 ? s[3] : given, half = dims / 2;
  const auto angles = [&](int i) {
    const Symbol a = c.has(3) ? sym.take(c.x(i), cast(c.x(3), DType::int64), {.axis = 0}) : c.x(i);
    const Shape& as = shape_of(a);
    return reshaped(a, Shape(as[0], 1, as[1], as[2]));
  };
  const Symbol cosine = angles(1), sine = angles(2);
  const Symbol turned = slice_along(x, 3, 0, dims);
  const Symbol a = interleaved ? slice_along(turned, 3, 0, dims, 2) : slice_along(turned, 3, 0, half);
  const Symbol b = interleaved ? slice_along(turned, 3, 1, dims, 2) : slice_along(turned, 3, half, dims);
  const Symbol re = sym.broadcast_mul(a, cosine) - sym.broadcast_mul(b, sine);
  const Symbol im = sym.broadcast_mul(a, sine) + sym.broadcast_mul(b, cosine);
  Symbol y = interleaved ? reshaped(sym.stack({.axis = 4}, re, im), shape_of(turned)) : concatenated({re, im}, 3);
  if (dims < s[3]) y = concatenated({y, slice_along(x, 3, dims, s[3])}, 3);
  c.set(packed ? join_heads(y) : y);
}

// query, key, value (batch, steps, heads d), state (batch, heads, dk, dv), decay, beta: a step after the other
void linear_attention(Call& c) {
  const std::string rule = c.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  const int64_t heads = c.integer("q_num_heads", 0), kv = c.integer("kv_num_heads", 0);
  const DType dtype = c.dtype(), wide = dtype == DType::float64 ? dtype : DType::float32;
  const Symbol q = split_heads(c, cast(c.x(0), wide), heads), k = split_heads(c, cast(c.x(1), wide), kv),
               v = split_heads(c, cast(c.x(2), wide), kv);
  const Shape &ks = shape_of(k), &vs = shape_of(v);
  const int64_t batch = ks[0], steps = ks[2], dk = ks[3], dv = vs[3];
  const double given = c.real("scale", 0), scale = given == 0 ? 1 / std::sqrt(double(dk)) : given;
  // a number for each head, or for each of its dk channels
  const auto rates = [&](int i) {
    const Symbol x = cast(c.x(i), wide);
    const int64_t width = shape_of(x)[2];
    if (width == 1 && kv > 1) return split_heads(c, broadcast(x, Shape(batch, steps, kv)), kv);
    return split_heads(c, x, kv);
  };
  Symbol state = c.has(3) ? cast(c.x(3), wide) : full(Shape(batch, kv, dk, dv), 0, wide);
  const Symbol decay = gated && c.has(4) ? sym.exp(rates(4)) : Symbol(), beta = delta && c.has(5) ? rates(5) : Symbol();
  std::vector<Symbol> results;
  for (int64_t t = 0; t < steps; ++t) {
    const auto at = [&](const Symbol& x) { return slice_along(x, 2, t, t + 1); };  // (batch, heads, 1, d)
    const Symbol key = transposed(at(k), {0, 1, 3, 2});                            // (batch, heads, dk, 1)
    if (decay.defined()) state = sym.broadcast_mul(state, transposed(at(decay), {0, 1, 3, 2}));
    Symbol value = at(v);
    if (delta) {
      value = value - sym.matmul(at(k), state);
      if (beta.defined()) value = sym.broadcast_mul(value, at(beta));
    }
    state = state + sym.matmul(key, value);
    results.push_back(sym.matmul(at(q), repeat_heads(state, heads)) * scale);
  }
  c.set(0, cast(join_heads(concatenated(results, 2)), dtype));
  c.set(1, cast(state, c.has(3) ? c.dtype(3) : dtype));
}

// input (batch, channels, steps), weight (channels, 1, k), bias, the k - 1 steps before
void causal_conv(Call& c) {
  const Shape &s = c.shape(0), &w = c.shape(1);
  const int64_t before = w[2] - 1;
  const Symbol past = c.has(3) ? c.x(3) : full(Shape(s[0], s[1], before), 0, c.dtype());
  const Symbol x = before == 0 ? c.x(0) : concatenated({past, c.x(0)}, 2);
  const op::Convolution op{.kernel = Shape(w[2]), .num_filter = int(w[0]), .num_group = int(w[0])};
  Symbol y = c.has(2) ? sym.Convolution(x, c.x(1), c.x(2), op) : sym.Convolution(x, c.x(1), op);
  const std::string activation = c.text("activation", "none");
  if (activation == "silu" || activation == "swish") y = sym.silu(y);
  c.set(0, y);
  c.set(1, before == 0 ? full(Shape(s[0], s[1], 0), 0, c.dtype())
                       : slice_along(x, 2, shape_of(x)[2] - before, shape_of(x)[2]));
}

constexpr Row attention_table[] = {
    {"Attention", attention, 23},
    {"RotaryEmbedding", rotary_embedding, 23},
    {"LinearAttention", linear_attention},
    {"CausalConvWithState", causal_conv},
    {"FlexAttention", flex_attention, 1, "ai.onnx.preview"},
};

}  // namespace

std::span<const Row> attention_rows() { return attention_table; }

}  // namespace kaon::onnx::convert
