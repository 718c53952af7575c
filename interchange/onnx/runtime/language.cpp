// Attention of language models that ONNX Runtime exports: groups of queries with a cache, and rotary positions.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/runtime/heads.h"
#include "kaon/interchange/onnx/runtime/standard.h"

namespace kaon::onnx::convert {

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// GroupQueryAttention: heads, steps and the cache.
struct Groups {
  int64_t heads = 0, own = 0, batch = 0, steps = 0, d = 0;  // own: heads of keys and values
  int64_t capacity = 0;                                     // steps of the new cache
  bool causal = true;
  int64_t window = -1;
  Symbol q, k, v;         // (batch, heads, steps, d); behind append(), k and v of the whole cache
  Symbol lengths, first;  // (batch, 1): steps of the cache that count, and the number of the first new one
  Symbol is_prompt;       // (1,)
  Symbol numbers;         // of the new steps (batch, steps)
};

Groups groups_of(const Call& c) {
  Groups g;
  g.heads = c.integer("num_heads", 0), g.own = c.integer("kv_num_heads", 0);
  g.causal = c.integer("causal", 1) != 0;
  g.window = c.integer("local_window_size", -1);
  if (g.heads < 1 || g.own < 1 || g.heads % g.own != 0) c.fail(fmt::format("{} heads for {}", g.heads, g.own));
  if (c.rank() != 3) c.fail(fmt::format("query (batch, steps, n) expected, got {}", c.shape().str()));
  if (!g.causal && g.window >= 0) c.fail("local_window_size needs causal");
  g.batch = c.shape()[0], g.steps = c.shape()[1];
  const bool packed = !c.has(1);
  if (packed == c.has(2)) c.fail("key and value expected, or neither");
  const int64_t width = c.shape()[2], parts = packed ? g.heads + 2 * g.own : g.heads;
  if (width % parts != 0) c.fail(fmt::format("{} heads for shape {}", parts, c.shape().str()));
  g.d = width / parts;
  const int64_t n = g.heads * g.d, m = g.own * g.d;
  for (int i : {1, 2}) {
    if (!packed && c.shape(i) != Shape(g.batch, g.steps, m)) {
      c.fail_supported(
          fmt::format("input {} of shape {} beside a query of shape {}", i, c.shape(i).str(), c.shape().str()));
    }
  }
  g.q = split_into_heads(c, packed ? slice_along(c.x(), 2, 0, n) : c.x(), g.heads);
  g.k = split_into_heads(c, packed ? slice_along(c.x(), 2, n, n + m) : c.x(1), g.own);
  g.v = split_into_heads(c, packed ? slice_along(c.x(), 2, n + m, n + 2 * m) : c.x(2), g.own);
  return g;
}

// Where the new steps are in the sequence. A prompt begins it; what is behind its length is no part of it.
void number_steps(Call& c, Groups& g) {
  if (c.shape(5).size() != g.batch || c.shape(6).size() != 1) {
    c.fail(fmt::format("seqlens_k of shape ({},) and one total_sequence_length expected, got {} and {}", g.batch,
                       c.shape(5).str(), c.shape(6).str()));
  }
  const Symbol total = reshaped(cast(c.x(6), DType::float32), Shape(1, 1));
  g.is_prompt = total == double(g.steps);
  g.lengths = reshaped(cast(c.x(5), DType::float32), Shape(g.batch, 1)) + 1;
  g.first = sym.broadcast_mul(sym.relu(g.lengths - double(g.steps)), 1 - g.is_prompt);
  g.numbers = sym.broadcast_add(g.first, step_numbers(g.steps, Shape(1, g.steps)));
  const int64_t past = c.has(3) ? c.shape(3)[2] : 0;
  g.capacity = g.steps;
  if (past > 0) {  // the program holds for this size of the cache
    g.capacity = c.conversion()
                     .read(Value::of(sym.broadcast_maximum(total, full(Shape(1, 1), double(past), DType::float32))))
                     .asvector<int64_t>()[0];
  }
}

void turn(const Call& c, Groups& g) {
  if (c.integer("do_rotary", 0) == 0) return;
  if (!c.has(7) || !c.has(8)) c.fail("do_rotary needs cos_cache and sin_cache");
  Symbol at = g.numbers;
  if (c.has(9)) {
    const Symbol given = cast(c.x(9), DType::float32);
    if (c.shape(9).size() == g.batch * g.steps) {
      // of a prompt the first number alone counts
      const Symbol begin = slice_along(reshaped(given, Shape(1, g.batch * g.steps)), 1, 0, 1);
      at = sym.broadcast_where(g.is_prompt, sym.broadcast_add(begin, g.numbers),
                               reshaped(given, Shape(g.batch, g.steps)));
    } else if (c.shape(9).size() == 1) {
      at = sym.broadcast_add(reshaped(given, Shape(1, 1)), step_numbers(g.steps, Shape(1, g.steps)));
    } else {
      c.fail(fmt::format("position_ids of shape {}", c.shape(9).str()));
    }
  }
  const bool interleaved = c.integer("rotary_interleaved", 0) != 0;
  g.q = rotated(c, g.q, c.x(7), c.x(8), at, interleaved);
  g.k = rotated(c, g.k, c.x(7), c.x(8), at, interleaved);
}

// The cache with the new steps in their places.
Symbol appended(const Call& c, const Groups& g, int past, const Symbol& x) {
  const int64_t before = c.has(past) ? c.shape(past)[2] : 0;
  if (before == 0) return x;
  if (c.shape(past) != Shape(g.batch, g.own, before, g.d)) {
    c.fail(fmt::format("input {} of shape ({}, {}, steps, {}) expected, got {}", past, g.batch, g.own, g.d,
                       c.shape(past).str()));
  }
  const Symbol cache = padded(c.x(past), {0, 0, 0, 0}, {0, 0, g.capacity - before, 0});
  const Symbol at = cast(reshaped(g.numbers, Shape(g.batch, 1, g.steps, 1)), DType::int64);
  return sym.put_along_axis(cache, broadcast(at, shape_of(x)), x, {.axis = 2});
}

// Which keys a query sees, as 1 and 0 (batch, 1, steps, capacity); undefined: all that count.
Symbol seen_keys(const Groups& g) {
  if ((!g.causal || g.steps == 1) && g.window < 0) return {};
  const Symbol key = step_numbers(g.capacity, Shape(1, 1, 1, g.capacity));
  const Symbol query = reshaped(g.numbers, Shape(g.batch, 1, g.steps, 1));
  const Symbol ahead = sym.broadcast_sub(key, query);
  const Symbol seen = ahead <= 0;
  return g.window < 0 ? seen : seen * (ahead > -double(g.window));
}

// attention_bias, whose keys may be fewer than the cache has.
Symbol bias_of(const Call& c, const Groups& g) {
  const Shape& s = c.shape(10);
  if (s.ndim() != 4 || s[3] > g.capacity) c.fail(fmt::format("attention_bias of shape {}", s.str()));
  return padded(cast(c.x(10), DType::float32), {0, 0, 0, 0}, {0, 0, 0, g.capacity - s[3]});
}

// Attention with scores that are bounded, looked at, or share the softmax with a number of their head.
Symbol attended_by_scores(Call& c, const Groups& g, const Symbol& seen, double scale) {
  const auto wide = [&](const Symbol& x) {
    return x.entry().node == g.q.entry().node || g.heads == g.own
               ? cast(x, DType::float32)
               : sym.repeat(cast(x, DType::float32), int(g.heads / g.own), 1);
  };
  const double cap = c.real("softcap", 0);
  Symbol scores = sym.matmul(cast(g.q, DType::float32), transposed(wide(g.k), {0, 1, 3, 2})) * scale;
  if (cap > 0) scores = sym.tanh(scores / cap) * cap;
  if (c.has(10)) scores = sym.broadcast_add(scores, bias_of(c, g));
  const Symbol key = step_numbers(g.capacity, Shape(1, 1, 1, g.capacity));
  Symbol counts = sym.broadcast_lesser(key, reshaped(g.lengths, Shape(g.batch, 1, 1, 1)));
  if (seen.defined()) counts = sym.broadcast_mul(seen, counts);
  const Symbol hidden = sym.broadcast_where(counts, constant({0.0}, Shape(1)), constant({kHidden}, Shape(1)));
  const Symbol bounded = sym.broadcast_add(scores, hidden);
  Symbol weights;
  if (c.has(11) || c.integer("smooth_softmax", 0) != 0) {
    if (c.has(11) && c.shape(11).size() != g.heads) c.fail(fmt::format("head_sink of shape {}", c.shape(11).str()));
    const Symbol sink = c.has(11) ? reshaped(cast(c.x(11), DType::float32), Shape(1, g.heads, 1, 1))
                                  : full(Shape(1, 1, 1, 1), 0, DType::float32);
    const Symbol all = concatenated({bounded, broadcast(sink, Shape(g.batch, g.heads, g.steps, 1))}, 3);
    weights = slice_along(sym.softmax(all), 3, 0, g.capacity);
  } else {
    weights = sym.softmax(bounded);
  }
  if (c.wants(3)) {
    const int64_t which = c.integer("qk_output", 0);
    if (which != 1 && which != 2) c.fail(fmt::format("qk_output is {}, 1 or 2 expected", which));
    const int64_t total = c.integers(6)[0];
    c.set(3, cast(slice_along(which == 1 ? scores : weights, 3, 0, total), c.dtype()));
  }
  return cast(sym.matmul(weights, wide(g.v)), c.dtype());
}

Symbol attended(Call& c, const Groups& g) {
  const double given = c.real("scale", 0), scale = given == 0 ? 1 / std::sqrt(double(g.d)) : given;
  const Symbol seen = seen_keys(g);
  const bool needs_scores = c.real("softcap", 0) > 0 || c.has(11) || c.integer("smooth_softmax", 0) != 0 || c.wants(3);
  if (needs_scores) return attended_by_scores(c, g, seen, scale);
  const Symbol lengths = cast(reshaped(g.lengths, Shape(g.batch)), DType::int64);
  op::ScaledDotProductAttention op{.scale = scale, .use_valid_length = true};
  if (c.has(10)) {
    Symbol bias = bias_of(c, g);
    if (seen.defined()) {
      add_bias(bias, sym.broadcast_where(seen, constant({0.0}, Shape(1)), constant({kHidden}, Shape(1))));
    }
    return sym.scaled_dot_product_attention(g.q, g.k, g.v, cast(bias, c.dtype()), lengths, op);
  }
  if (!seen.defined()) return sym.scaled_dot_product_attention(g.q, g.k, g.v, lengths, op);
  return sym.scaled_dot_product_attention(g.q, g.k, g.v, cast(seen, DType::boolean), lengths, op);
}

// query, key, value, keys and values before, lengths - 1, the longest length, cosines, sines, positions, bias of
// scores, a number of each head in the softmax, scales of the cache, weights of norms of queries and keys, steps that
// are new
void group_query(Call& c) {
  for (int i : {12, 13, 16}) {
    if (c.has(i)) c.fail_supported(fmt::format("input {}", i));
  }
  for (const char* name : {"k_quant_type", "v_quant_type"}) {
    if (c.text(name, "NONE") != "NONE") c.fail_supported(name);
  }
  if (c.integer("sliding_window_cache", 0) != 0) c.fail_supported("sliding_window_cache");
  if (c.has(3) != c.has(4)) c.fail("past_key and past_value expected, or neither");
  Groups g = groups_of(c);
  const auto normalised = [&](const Symbol& x, int weight, const char* own) {
    if (!c.has(weight)) return x;
    const double epsilon = c.real(own, c.real("qk_norm_epsilon", 1e-6f));
    return standard(c, "RMSNormalization", {Value::of(x), c.input(weight)}, {attribute("epsilon", epsilon)}).symbol;
  };
  g.q = normalised(g.q, 14, "q_norm_epsilon");
  g.k = normalised(g.k, 15, "k_norm_epsilon");
  number_steps(c, g);
  turn(c, g);
  g.k = appended(c, g, 3, g.k);
  g.v = appended(c, g, 4, g.v);
  c.set(0, heads_joined(attended(c, g)));
  c.set(1, g.k);
  c.set(2, g.v);
}

// x (batch, steps, heads d) or (batch, heads, steps, d), positions, cosines, sines
void runtime_rotary(Call& c) {
  if (c.rank() != 3 && c.rank() != 4) c.fail(fmt::format("input of shape {}", c.shape().str()));
  if (c.integer("is_packed_batching", 0) != 0) c.fail_supported("is_packed_batching");
  const double scale = c.real("scale", 1);
  if (scale != 1) c.fail_supported(fmt::format("scale {}", scale));
  const bool packed = c.rank() == 3;
  const int64_t half = c.shape(2).back(), given = c.integer("num_heads", 0),
                dims = c.integer("rotary_embedding_dim", 0);
  if (dims > 0 && (given == 0 || dims != 2 * half)) {
    c.fail(
        fmt::format("rotary_embedding_dim is {} with {} heads and cosines of shape {}", dims, given, c.shape(2).str()));
  }
  const int64_t heads = given > 0 ? given : packed ? c.shape()[2] / (2 * half) : 0;
  const Symbol x = packed ? split_into_heads(c, c.x(), heads) : c.x();
  const int64_t batch = shape_of(x)[0], steps = shape_of(x)[2];
  Symbol at = cast(c.x(1), DType::float32);
  if (c.shape(1).size() == 1) {  // of the first step
    at = sym.broadcast_add(reshaped(at, Shape(1, 1)), step_numbers(steps, Shape(1, steps)));
  } else if (c.shape(1) != Shape(batch, steps)) {
    c.fail(fmt::format("position_ids of shape ({}, {}) or (1,) expected, got {}", batch, steps, c.shape(1).str()));
  }
  const Symbol y = rotated(c, x, c.x(2), c.x(3), at, c.integer("interleaved", 0) != 0);
  c.set(packed ? heads_joined(y) : y);
}

constexpr Row runtime_language_table[] = {
    {"GroupQueryAttention", group_query, 1, kMicrosoft},
    {"RotaryEmbedding", runtime_rotary, 1, kMicrosoft},
};

}  // namespace

std::span<const Row> runtime_language_rows() { return runtime_language_table; }

}  // namespace kaon::onnx::convert
