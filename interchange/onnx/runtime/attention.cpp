// ONNX Runtime's attention: with its projections inside, and of many heads.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/runtime/heads.h"
#include "kaon/interchange/onnx/runtime/standard.h"

namespace kaon::onnx::convert {

namespace {

// Queries, keys and values (batch, heads, steps, d), and what may be seen.
struct AttendingHeads {
  Symbol q, k, v;
  Symbol bias;       // broadcast to (batch, heads, queries, keys); undefined: none
  int64_t past = 0;  // keys before the first query
};

// The mask at input i as numbers to add: of lengths (batch,), of ends and starts (2 batch,), or of each key, alone or
// for each query, where 0 is not seen.
Symbol mask_bias(const Call& c, int i, int64_t batch, int64_t queries, int64_t keys) {
  const double hidden = c.real("mask_filter_value", -10000);
  const Shape& s = c.shape(i);
  Symbol seen;
  if (s.ndim() == 1 && (s[0] == batch || s[0] == 2 * batch)) {
    const Symbol key = step_numbers(keys, Shape(1, keys));
    const Symbol bounds = cast(c.x(i), DType::float32);
    seen = sym.broadcast_lesser(key, reshaped(slice_along(bounds, 0, 0, batch), Shape(batch, 1)));
    if (s[0] == 2 * batch) {
      const Symbol first = reshaped(slice_along(bounds, 0, batch, 2 * batch), Shape(batch, 1));
      seen = sym.broadcast_mul(seen, sym.broadcast_greater_equal(key, first));
    }
    seen = reshaped(seen, Shape(batch, 1, 1, keys));
  } else if (s.ndim() == 2 && s[0] == batch && s[1] == keys) {
    seen = reshaped(cast(c.x(i), DType::float32) > 0, Shape(batch, 1, 1, keys));
  } else if (s.ndim() == 3 && s[0] == batch && s[1] == queries && s[2] == keys) {
    seen = reshaped(cast(c.x(i), DType::float32) > 0, Shape(batch, 1, queries, keys));
  } else {
    c.fail_supported(fmt::format("a mask of shape {} for {} queries and {} keys", s.str(), queries, keys));
  }
  return (1 - seen) * hidden;
}

void set_attention(Call& c, const AttendingHeads& h) {
  const DType dtype = dtype_of(h.q);
  const double given = c.real("scale", 0), scale = given == 0 ? 1 / std::sqrt(double(shape_of(h.q)[3])) : given;
  op::ScaledDotProductAttention op{.scale = scale};
  if (c.integer("unidirectional", 0) != 0) {
    op.causal = h.past > 0 ? CausalMask::lower_right : CausalMask::upper_left;
  }
  c.set(0, heads_joined(h.bias.defined() ? sym.scaled_dot_product_attention(h.q, h.k, h.v, cast(h.bias, dtype), op)
                                         : sym.scaled_dot_product_attention(h.q, h.k, h.v, op)));
}

// A half of (2, batch, heads, steps, d).
Symbol past_half(const Symbol& past, int64_t i) {
  const Shape& s = shape_of(past);
  return reshaped(slice_along(past, 0, i, i + 1), Shape(s[1], s[2], s[3], s[4]));
}

// `projected` (batch, steps, q + k + v), mask, keys and values before, bias of scores
void self_attention(Call& c, const Symbol& projected, int mask, int past, int bias) {
  const int64_t heads = c.integer("num_heads", 0);
  if (c.integer("do_rotary", 0) != 0) c.fail_supported("do_rotary");
  if (c.integer("past_present_share_buffer", 0) != 0) c.fail_supported("past_present_share_buffer");
  const Shape& s = shape_of(projected);
  std::vector<int64_t> sizes = c.integers("qkv_hidden_sizes");
  if (sizes.empty()) sizes = {s[2] / 3, s[2] / 3, s[2] / 3};
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != s[2] || sizes[0] != sizes[1]) {
    c.fail(fmt::format("qkv_hidden_sizes of {} numbers for a projection of shape {}", sizes.size(), s.str()));
  }
  AttendingHeads h;
  h.q = split_into_heads(c, slice_along(projected, 2, 0, sizes[0]), heads);
  h.k = split_into_heads(c, slice_along(projected, 2, sizes[0], 2 * sizes[0]), heads);
  h.v = split_into_heads(c, slice_along(projected, 2, 2 * sizes[0], s[2]), heads);
  if (c.has(past)) {
    h.past = c.shape(past)[3];
    h.k = concatenated({past_half(c.x(past), 0), h.k}, 2);
    h.v = concatenated({past_half(c.x(past), 1), h.v}, 2);
  }
  if (c.has(mask)) h.bias = mask_bias(c, mask, s[0], s[1], shape_of(h.k)[2]);
  if (bias >= 0 && c.has(bias)) add_bias(h.bias, cast(c.x(bias), DType::float32));
  set_attention(c, h);
  if (c.wants(1)) {
    Shape one(1);
    for (int64_t d : shape_of(h.k)) one.push_back(d);
    c.set(1, concatenated({reshaped(h.k, one), reshaped(h.v, one)}, 0));
  }
}

// input (batch, steps, n), weights (n, q + k + v), bias, mask, keys and values before, bias of scores
void runtime_attention(Call& c) {
  if (c.rank() != 3) c.fail(fmt::format("input (batch, steps, n) expected, got {}", c.shape().str()));
  Symbol projected = standard(c, "MatMul", {c.input(0), c.input(1)}).symbol;
  if (c.has(2)) projected = sym.broadcast_add(projected, c.x(2));
  self_attention(c, projected, 3, 4, 5);
}

// input, weights, bias, scales of both, mask, zero points of both, keys and values before
void quantised_attention(Call& c) {
  const Value sums = standard(c, "MatMulInteger", {c.input(0), c.input(1), optional_input(c, 6), optional_input(c, 7)});
  const auto flat = [&](int i) { return reshaped(c.x(i), Shape(c.shape(i).size())); };
  const Symbol unit = sym.broadcast_mul(flat(3), flat(4));
  const Symbol projected = sym.broadcast_add(sym.broadcast_mul(cast(sums.symbol, c.dtype(2)), unit), c.x(2));
  self_attention(c, projected, 5, 8, -1);
}

// What is at `i` of the `parts` in x (batch, steps, heads, parts, d), as (batch, steps, heads d).
Symbol part_of(const Call& c, const Symbol& x, int64_t heads, int64_t i, int64_t parts) {
  const Shape& s = shape_of(x);
  if (s.ndim() != 5 || s[2] != heads || s[3] != parts) {
    c.fail(fmt::format("(batch, steps, {}, {}, d) expected, got {}", heads, parts, s.str()));
  }
  return reshaped(slice_along(x, 3, i, i + 1), Shape(s[0], s[1], heads * s[4]));
}

// Queries, keys and values (batch, steps, n), each alone or packed; keys and values with heads (batch, heads, steps, d)
// come from another layer.
std::array<Symbol, 3> separate_parts(const Call& c, int64_t heads) {
  if (c.has(1) && c.has(2)) return {c.x(0), c.x(1), c.x(2)};
  if (c.has(2)) c.fail("value without key");
  if (c.has(1)) return {c.x(0), part_of(c, c.x(1), heads, 0, 2), part_of(c, c.x(1), heads, 1, 2)};
  return {part_of(c, c.x(0), heads, 0, 3), part_of(c, c.x(0), heads, 1, 3), part_of(c, c.x(0), heads, 2, 3)};
}

// query, key, value, bias of all three, mask of keys, bias of scores, keys and values before
void multi_head(Call& c) {
  const int64_t heads = c.integer("num_heads", 0);
  for (int i : {8, 9}) {
    if (c.has(i)) c.fail_supported(fmt::format("input {}", i));
  }
  if (c.has(6) != c.has(7)) c.fail("past_key and past_value expected, or neither");
  const auto [query, key, value] = separate_parts(c, heads);
  if (rank_of(query) != 3) c.fail(fmt::format("query (batch, steps, n) expected, got {}", c.shape().str()));
  AttendingHeads h;
  const auto projected = [&](const Symbol& x, int64_t from, int64_t size) {
    if (rank_of(x) == 4) return x;
    if (!c.has(3)) return split_into_heads(c, x, heads);
    return split_into_heads(c, sym.broadcast_add(x, slice_along(c.x(3), 0, from, from + size)), heads);
  };
  const int64_t n = shape_of(query)[2], m = rank_of(value) == 3 ? shape_of(value)[2] : 0;
  if (c.has(3) && c.shape(3).size() < 2 * n + m) c.fail(fmt::format("bias of shape {}", c.shape(3).str()));
  h.q = projected(query, 0, n);
  h.k = projected(key, n, n);
  h.v = projected(value, 2 * n, m);
  if (c.has(6)) {
    h.past = c.shape(6)[2];
    h.k = concatenated({c.x(6), h.k}, 2);
    h.v = concatenated({c.x(7), h.v}, 2);
  }
  const int64_t steps = shape_of(h.q)[2], keys = shape_of(h.k)[2];
  if (c.integer("unidirectional", 0) != 0 && steps + h.past != keys) {
    c.fail_supported(fmt::format("unidirectional, of {} queries and {} keys,", steps, keys));
  }
  if (c.has(4)) h.bias = mask_bias(c, 4, shape_of(h.q)[0], steps, keys);
  if (c.has(5)) add_bias(h.bias, cast(c.x(5), DType::float32));
  set_attention(c, h);
  c.set(1, h.k);
  c.set(2, h.v);
  if (c.wants(3)) c.fail_supported("the output qk");
}

constexpr Row runtime_attention_table[] = {
    {"Attention", runtime_attention, 1, kMicrosoft},
    {"QAttention", quantised_attention, 1, kMicrosoft},
    {"MultiHeadAttention", multi_head, 1, kMicrosoft},
};

}  // namespace

std::span<const Row> runtime_attention_rows() { return runtime_attention_table; }

}  // namespace kaon::onnx::convert
