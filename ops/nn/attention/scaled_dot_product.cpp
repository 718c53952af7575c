#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kaon/ops/functions.h"
#include "kaon/ops/nn/attention/attention.h"
#include "kaon/ops/nn/attention/kernels/attention_backward.h"
#include "kaon/ops/nn/attention/kernels/attention_forward.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/random/kernels/random_math.h"

namespace kaon {

using namespace ops;
namespace {

// Checks query, key, value and what follows them, from input `first` on.
template <class Op>
void expect_attention(InferContext& c, const Op& op, int first) {
  for (int i = first; i < first + 3; ++i) c.expect_ndim(i, 4);
  const Shape query = c.shape(first), key = c.shape(first + 1), value = c.shape(first + 2);
  if (op.scale && !std::isfinite(*op.scale)) c.fail_value(fmt::format("scale must be finite, got {}", *op.scale));
  if (key[0] != query[0] || key[3] != query[3]) {
    c.fail(
        fmt::format("key must have the batch {} and the dim {} of query: {}", query[0], query[3], c.describe_inputs()));
  }
  if (value[0] != key[0] || value[1] != key[1] || value[2] != key[2]) {
    c.fail(fmt::format("value must have {} samples, {} heads and {} steps as key: {}", key[0], key[1], key[2],
                       c.describe_inputs()));
  }
  if (key[1] == 0 ? query[1] != 0 : query[1] % key[1] != 0) {
    c.fail(fmt::format("the heads of query must be a multiple of those of key, got {} and {}: {}", query[1], key[1],
                       c.describe_inputs()));
  }
  if (!(op.dropout >= 0 && op.dropout <= 1)) {
    c.fail_value(fmt::format("dropout must lie in [0, 1], got {}", op.dropout));
  }
  c.expect_floating(first);
  for (int i = first + 1; i < first + 3; ++i) {
    if (c.dtype(i) != c.dtype(first)) {
      c.fail_dtype(fmt::format("query, key and value must have one dtype, got {} and {}", name_of(c.dtype(first)),
                               name_of(c.dtype(i))));
    }
  }
  int next = first + 3;
  if (op.use_mask) {
    const Shape scores{query[0], query[1], query[2], key[2]};
    const Shape& mask = c.shape(next);
    bool fits = mask.ndim() <= 4;
    for (int i = 1; fits && i <= mask.ndim(); ++i) {
      const int64_t size = mask[mask.ndim() - i];
      fits = size == 1 || size == scores[4 - i];
    }
    if (!fits) {
      c.fail(fmt::format("mask must broadcast to {}, got {}: {}", scores.str(), mask.str(), c.describe_inputs()));
    }
    if (c.dtype(next) != DType::boolean && c.dtype(next) != c.dtype(first)) {
      c.fail_dtype(fmt::format("mask must be bool or {}, got {}", name_of(c.dtype(first)), name_of(c.dtype(next))));
    }
    ++next;
  }
  if (op.use_valid_length) {
    c.expect_shape(next, Shape(query[0]));
    if (c.dtype(next) == DType::boolean) c.fail_dtype("valid_length must be numbers, got bool");
  }
}

DType accumulator(DType t) { return t == DType::float64 ? DType::float64 : DType::float32; }

double product_flops(const TensorMeta& query, const TensorMeta& key, const TensorMeta& value) {
  const double scores = double(query.shape.product(0, 3)) * double(key.shape[2]);
  return 2 * scores * double(query.shape[3] + value.shape[3]);
}

// Whether query i sees key j, as an array that broadcasts to all scores; undefined where each sees each. query and key
// are (rows, steps, size); they say how many steps there are, and where the numbers are made.
NDArray seen_keys(const op::ScaledDotProductAttention& op, const AttentionSizes& s, const NDArray& query,
                  const NDArray& key, const NDArray* valid_length) {
  const auto steps = [&](const NDArray& x, const Shape& shape) {
    return nd._reshape_to(nd.arange_like(x, {.axis = 1}), {.shape = shape});
  };
  NDArray seen, length;
  if (valid_length) {
    length = nd._reshape_to(nd.cast(*valid_length, key.dtype()), {.shape = {s.batch, 1, 1, 1}});
    length = nd.trunc(nd.clip(length, 0, double(s.m)));
    seen = nd.broadcast_lesser(steps(key, {1, 1, 1, s.m}), length);
  }
  if (op.causal == CausalMask::none) return seen;
  NDArray end = steps(query, {1, 1, s.n, 1}) + 1;
  if (op.causal == CausalMask::lower_right) {
    end = valid_length ? nd.broadcast_add(end, length - double(s.n)) : end + double(s.m - s.n);
  }
  const NDArray before = nd.broadcast_lesser(steps(key, {1, 1, 1, s.m}), end);
  return seen.defined() ? nd.broadcast_mul(seen, before) : before;
}

// The gradient of an additive mask: of the scores, summed to its shape. One array of all scores, or several.
NDArray mask_gradient(const op::ScaledDotProductAttention& op, GradContext& g) {
  const NDArray &query = g.input(0), &key = g.input(1), &value = g.input(2), &mask = g.input(3);
  const AttentionSizes s(op, query.shape(), key.shape(), value.shape());
  const DType wide = accumulator(query.dtype());
  const Shape all{s.batch, s.heads, s.n, s.m};
  if (all.size() == 0) return nd.zeros_like(mask);
  const auto each = [&](const NDArray& x) {  // (batch heads, steps, size), as many heads as queries have
    const NDArray own = x.shape()[1] == s.heads ? x : nd.repeat(x, int(s.group()), 1);
    return nd._reshape_to(nd.cast(own, wide), {.shape = {s.batch * s.heads, x.shape()[2], x.shape()[3]}});
  };
  const auto as_scores = [&](const NDArray& x) { return nd._reshape_to(x, {.shape = all}); };
  const auto column = [&](const NDArray& x) { return nd._reshape_to(x, {.shape = {s.batch, s.heads, s.n, 1}}); };
  NDArray logs = as_scores(nd.batch_dot(each(query) * s.scale, each(key), {.transpose_b = true}));
  logs = nd.broadcast_sub(nd.broadcast_add(logs, nd.cast(mask, wide)), column(g.output(1)));
  NDArray weights = nd.exp(logs);
  if (const NDArray seen = seen_keys(op, s, each(query), each(key), op.use_valid_length ? &g.input(4) : nullptr);
      seen.defined()) {
    weights = nd.where(nd.broadcast_to(seen, all), weights, nd.zeros_like(weights));
  }
  const NDArray head = each(g.head()), output = each(g.output());
  const NDArray slopes = as_scores(nd.batch_dot(head, each(value), {.transpose_b = true}));
  const NDArray mean = column(nd.sum(head * output, {.axis = {2}}));
  const NDArray gradient = weights * nd.broadcast_sub(slopes, mean);
  Shape full;
  while (full.ndim() + mask.ndim() < 4) full.push_back(1);
  for (int64_t size : mask.shape()) full.push_back(size);
  return nd.cast(nd._reshape_to(nd._sum_to(gradient, {.shape = full}), {.shape = mask.shape()}), mask.dtype());
}

}  // namespace

constinit const OpDef op::ScaledDotProductAttention::def = make_op_def<op::ScaledDotProductAttention>();
constinit const OpDef op::BackwardScaledDotProductAttention::def = make_op_def<op::BackwardScaledDotProductAttention>();

void op::ScaledDotProductAttention::infer(InferContext& c) const {
  expect_attention(c, *this, 0);
  const Shape query = c.shape(0);
  c.set_output(0, {query[0], query[1], query[2], c.shape(2)[3]}, c.dtype());
  c.set_output(1, {query[0], query[1], query[2]}, accumulator(c.dtype()));
  if (dropout > 0) c.set_output(2, Shape(AttentionDropout::words), DType::uint32);
}

double op::ScaledDotProductAttention::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  return product_flops(inputs[0], inputs[1], inputs[2]);
}

bool op::ScaledDotProductAttention::keeps_rows(const RowQuery& q) const {
  for (int i = 0; i < q.num_inputs(); ++i) {
    const bool is_mask = use_mask && i == 3, has_samples = !is_mask || (q.ndim(i) == 4 && q.shape(i)[0] != 1);
    if (q.has_rows(i) != has_samples) return false;
  }
  return true;
}

void op::ScaledDotProductAttention::grad(GradContext& g) const {
  if (g.has_head(1)) throw StateError("[scaled_dot_product_attention] has no second derivative");
  if (use_mask && g.wants(3)) {
    if (g.input_like(3).dtype() != DType::boolean) {
      if (dropout > 0) {
        throw StateError(
            "[scaled_dot_product_attention] a mask that is added has no gradient where dropout is above 0");
      }
      g.set(3, mask_gradient(*this, g));
    }
  }
  if (!g.wants(0) && !g.wants(1) && !g.wants(2)) return;
  std::vector<NDArray> arrays{g.head(), g.output(), g.output(1)};
  for (int i = 0; i < num_inputs(); ++i) arrays.push_back(g.input(i));
  if (dropout > 0) arrays.push_back(g.output(2));
  std::vector<const NDArray*> pointers;
  for (const NDArray& a : arrays) pointers.push_back(&a);
  const std::vector<NDArray> d =
      nd._backward_scaled_dot_product_attention(pointers, {.scale = scale,
                                                           .causal = causal,
                                                           .use_mask = use_mask,
                                                           .use_valid_length = use_valid_length,
                                                           .dropout = dropout});
  for (int i = 0; i < 3; ++i) {
    if (g.wants(i)) g.set(i, d[size_t(i)]);
  }
}

void op::BackwardScaledDotProductAttention::infer(InferContext& c) const {
  expect_attention(c, *this, 3);
  const Shape query = c.shape(3), output{query[0], query[1], query[2], c.shape(5)[3]};
  c.expect_shape(0, output);
  c.expect_shape(1, output);
  c.expect_shape(2, {query[0], query[1], query[2]});
  for (int i = 0; i < 2; ++i) {
    if (c.dtype(i) != c.dtype(3)) {
      c.fail_dtype(
          fmt::format("head and output must be {} as query, got {}", name_of(c.dtype(3)), name_of(c.dtype(i))));
    }
  }
  if (c.dtype(2) != accumulator(c.dtype(3))) {
    c.fail_dtype(fmt::format("logsum must be {}, got {}", name_of(accumulator(c.dtype(3))), name_of(c.dtype(2))));
  }
  if (dropout > 0) {
    const int drawn = c.num_inputs() - 1;
    c.expect_shape(drawn, Shape(AttentionDropout::words));
    if (c.dtype(drawn) != DType::uint32) {
      c.fail_dtype(fmt::format("drawn must be uint32, got {}", name_of(c.dtype(drawn))));
    }
  }
  for (int i = 0; i < 3; ++i) c.set_output(i, c.shape(3 + i), c.dtype(3));
}

double op::BackwardScaledDotProductAttention::flops(std::span<const TensorMeta> inputs,
                                                    std::span<const TensorMeta>) const {
  return 2.5 * product_flops(inputs[3], inputs[4], inputs[5]);
}

AttentionDropout ops::attention_dropout(double p, int64_t m, RandomKey key) {
  if (p == 0) return {};
  return {.key = key,
          .threshold = std::max(1u, dropout_threshold(p)),
          .factor = dropout_factor<double>(p),
          .row_words = (m + 3) / 4 * 4};
}

void run_cpu(const op::ScaledDotProductAttention& op, KernelContext& c) {
  const AttentionSizes sizes(op, c.in(0).shape, c.in(1).shape, c.in(2).shape);
  const AttentionDropout dropout = attention_dropout(c.training ? op.dropout : 0, sizes.m, c.random);
  if (op.dropout > 0 && c.out(2).data) dropout.save(c.out(2).as<uint32_t>());
  attention_forward(
      {.sizes = sizes,
       .dtype = c.in(0).dtype,
       .query = c.in(0).data,
       .key = c.in(1).data,
       .value = c.in(2).data,
       .mask = op.use_mask ? AttentionMask(c.in(3)) : AttentionMask(),
       .dropout = dropout,
       .lengths = load_valid_lengths(c, op.use_valid_length ? &c.inputs.back() : nullptr, sizes.batch, sizes.m),
       .output = c.out(0).data,
       .logsum = c.out(1).data},
      c.run);
}

void run_cpu(const op::BackwardScaledDotProductAttention& op, KernelContext& c) {
  const AttentionSizes sizes(op, c.in(3).shape, c.in(4).shape, c.in(5).shape);
  AttentionDropout dropout = attention_dropout(op.dropout, sizes.m, {});
  if (op.dropout > 0) dropout.load(c.inputs.back().as<uint32_t>());
  attention_backward({.sizes = sizes,
                      .dtype = c.in(3).dtype,
                      .head = c.in(0).data,
                      .output = c.in(1).data,
                      .logsum = c.in(2).data,
                      .query = c.in(3).data,
                      .key = c.in(4).data,
                      .value = c.in(5).data,
                      .mask = op.use_mask ? AttentionMask(c.in(6)) : AttentionMask(),
                      .dropout = dropout,
                      .lengths = load_valid_lengths(c, op.use_valid_length ? &c.in(6 + int(op.use_mask)) : nullptr,
                                                    sizes.batch, sizes.m),
                      .d_query = c.out(0).data,
                      .d_key = c.out(1).data,
                      .d_value = c.out(2).data},
                     c.run);
}

}  // namespace kaon
