// Attention, and the encoder and the decoder of the transformer made of it.
#pragma once

#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/basic.h"
#include "kaon/gluon/nn/dense.h"
#include "kaon/gluon/nn/norm.h"
#include "kaon/gluon/nn/sequential.h"

namespace KAON_API kaon {
namespace gluon::nn {

// For self-attention over x (batch, length, units) whose sample i has valid_length[i] steps: a mask (batch, 1, length),
// 1 for these steps and 0 after them.
auto valid_length_mask(auto F, const auto& x, const auto& valid_length) {
  auto ones = F.ones_like(F.slice_axis(x, 2, 0, 1));
  return F.reshape(F.SequenceMask(ones, valid_length, {.axis = 1}), {0, 1, -1});
}

struct MultiHeadAttentionOptions {
  double dropout = 0;  // of the attention weights
  bool use_bias = true;
  CausalMask causal = CausalMask::none;    // else no query looks behind its own place, counted from the first step, or
                                           // from the last one (lower_right)
  init::Initializer weight_initializer{};  // unset: the one given to initialize()
  init::Initializer bias_initializer = init::Zero();
  int64_t in_units = 0;  // width of query, key and value; 0: each from its first input
};
static_assert(std::is_trivially_destructible_v<MultiHeadAttentionOptions>);

// Scaled dot-product attention in num_heads heads (Vaswani et al. 2017), with the names of GluonNLP's cell: query
// (batch, length, any), key and value (batch, memory, any) are projected to `units`, which the heads share out; in each
// head y = dropout(softmax(q k^T / sqrt(units / num_heads))) v. The result is (batch, length, units). A fourth array,
// the mask (batch, length, memory), where any size may be 1, is 1 where a query may look and 0 where not; a query that
// may look nowhere gets 0.
struct MultiHeadAttentionCell : HybridBlock<MultiHeadAttentionCell> {
  MultiHeadAttentionCell(int64_t units, int num_heads, const MultiHeadAttentionOptions& options = {});

  auto hybrid_forward(auto F, auto query, auto key, auto value) {
    return finish(
        F, F.scaled_dot_product_attention(by_head(F, proj_query(query)), by_head(F, proj_key(key)),
                                          by_head(F, proj_value(value)), {.causal = causal_, .dropout = dropout_}));
  }

  auto hybrid_forward(auto F, auto query, auto key, auto value, auto mask) {
    mask = F.cast(F.reshape(mask, {0, -4, 1, -1, 0}), DType::boolean);  // (batch, 1, length, memory)
    return finish(F, F.scaled_dot_product_attention(by_head(F, proj_query(query)), by_head(F, proj_key(key)),
                                                    by_head(F, proj_value(value)), mask,
                                                    {.causal = causal_, .use_mask = true, .dropout = dropout_}));
  }

  // Goes on with sequences: x (batch, n, any) are their steps from `position` (1,) on. `cache`, as begin_cache() gives
  // it, has keys and values of the steps before. Each step attends to itself and to those before. Returns the result
  // and the cache with the new steps in it; what lies behind its end is left out. For prediction: drops nothing.
  template <class A>
  std::pair<A, std::vector<A>> hybrid_forward(auto F, const A& x, const std::vector<A>& cache, const A& position) {
    check_cache(cache.size());
    const auto places = [&](const A& a, int axis) {  // counted in float32, whatever x holds
      return F.arange_like(F.cast(F.slice_axis(a, -1, 0, 1), DType::float32), {.axis = axis});
    };
    const A begin = F.cast(position, DType::float32);
    const A end = begin + F.sum(F.ones_like(places(x, 1)), {.axis = Shape{0}, .keepdims = true});
    const A row = F.broadcast_sub(places(cache[0], 2), begin);  // of the new steps, for each place in the cache
    const A is_new = F.broadcast_mul(row >= 0, F.broadcast_lesser(places(cache[0], 2), end));
    const auto written = [&](const A& old, const A& steps) {
      const A rows = F.take(by_head(F, steps), row, {.axis = 2});  // clipped where there are none
      return F.where(F.broadcast_like(F.reshape(is_new, {1, 1, -1, 1}), old), rows, old);
    };
    const A keys = written(cache[0], proj_key(x)), values = written(cache[1], proj_value(x));
    const A y = F.scaled_dot_product_attention(by_head(F, proj_query(x)), keys, values,
                                               F.broadcast_like(end, x, {.lhs_axes = Shape{0}, .rhs_axes = Shape{0}}),
                                               {.causal = CausalMask::lower_right, .use_valid_length = true});
    return {finish(F, y), {keys, values}};
  }
  // Attends to keys and values that begin_cache() or project() gave, both (batch, num_heads, memory, units /
  // num_heads), with a mask as above or without. Drops nothing.
  auto look_up(auto F, const auto& query, const auto& keys, const auto& values) {
    return finish(F, F.scaled_dot_product_attention(by_head(F, proj_query(query)), keys, values));
  }
  auto look_up(auto F, const auto& query, const auto& keys, const auto& values, const auto& mask) {
    const auto allowed = F.cast(F.reshape(mask, {0, -4, 1, -1, 0}), DType::boolean);
    return finish(
        F, F.scaled_dot_product_attention(by_head(F, proj_query(query)), keys, values, allowed, {.use_mask = true}));
  }
  // The keys and the values of memory (batch, memory, any), for look_up().
  std::vector<NDArray> project(const NDArray& memory) const;
  // Zeros for keys and for values, (batch, num_heads, capacity, units / num_heads), of the parameters' dtype and
  // device.
  std::vector<NDArray> begin_cache(int64_t batch, int64_t capacity) const;

  Dense proj_query, proj_key, proj_value;

 private:
  static void check_cache(size_t arrays);
  // (batch, steps, units) to (batch, heads, steps, units / heads), and back
  auto by_head(auto F, const auto& x) { return F.transpose(F.reshape(x, {0, 0, -4, num_heads_, -1}), {0, 2, 1, 3}); }
  auto finish(auto F, const auto& y) { return F.reshape(F.transpose(y, {0, 2, 1, 3}), {0, 0, -3}); }

  int64_t units_;
  int num_heads_;
  CausalMask causal_;
  double dropout_;
};

struct TransformerOptions {
  double dropout = 0;
  ActivationName activation{};  // of the feed-forward layer; unset: GELU
  double layer_norm_eps = 1e-5;
  bool pre_norm = false;                   // normalise what enters each part instead of each sum
  CausalMask causal = CausalMask::none;    // of an encoder's attention: with pre_norm, the block of a GPT
  init::Initializer weight_initializer{};  // unset: the one given to initialize()
  init::Initializer bias_initializer = init::Zero();
};
static_assert(std::is_trivially_destructible_v<TransformerOptions>);

// x (batch, length, units) to layer_norm(x + dropout(ffn_2(activation(ffn_1(x))))), ffn_1 being hidden_size wide; with
// pre_norm to x + dropout(ffn_2(activation(ffn_1(layer_norm(x))))).
struct PositionwiseFFN : HybridBlock<PositionwiseFFN> {
  PositionwiseFFN(int64_t units, int64_t hidden_size, const TransformerOptions& options = {});
  auto hybrid_forward(auto, auto x) {
    const auto widened = [&](const auto& a) { return dropout_layer(ffn_2(activation(ffn_1(a)))); };
    return pre_norm_ ? x + widened(layer_norm(x)) : layer_norm(x + widened(x));
  }

  Dense ffn_1;
  AnyBlock activation;
  Dense ffn_2;
  Dropout dropout_layer;
  LayerNorm layer_norm;

 private:
  bool pre_norm_;
};

// One encoder block, normalised after each sum as in Vaswani et al. 2017, with the names of GluonNLP's cell: h =
// layer_norm(x + dropout(proj(attention(x, x, x)))), y = ffn(h); with pre_norm n = layer_norm(x), h = x +
// dropout(proj(attention(n, n, n))). x and y are (batch, length, units). A second array masks the attention: see
// MultiHeadAttentionCell and valid_length_mask.
struct TransformerEncoderCell : HybridBlock<TransformerEncoderCell> {
  TransformerEncoderCell(int64_t units, int64_t hidden_size, int num_heads, const TransformerOptions& options = {});
  auto hybrid_forward(auto, auto x) { return ffn(attended(x)); }
  auto hybrid_forward(auto, auto x, auto mask) { return ffn(attended(x, mask)); }
  // Goes on with sequences, with attention_cell's cache, which it returns too.
  template <class A>
  std::pair<A, std::vector<A>> hybrid_forward(auto, const A& x, const std::vector<A>& cache, const A& position) {
    std::vector<A> next;
    const A y = added(x, [&](const A& a) {
      auto [attended, written] = attention_cell(a, cache, position);
      next = written;
      return attended;
    });
    return {ffn(y), next};
  }

  MultiHeadAttentionCell attention_cell;
  Dense proj;
  Dropout dropout_layer;
  LayerNorm layer_norm;
  PositionwiseFFN ffn;

 private:
  auto attended(const auto& x, const auto&... mask) {
    return added(x, [&](const auto& a) { return attention_cell(a, a, a, mask...); });
  }
  auto added(const auto& x, const auto& attend) {
    const auto look = [&](const auto& a) { return dropout_layer(proj(attend(a))); };
    return pre_norm_ ? x + look(layer_norm(x)) : layer_norm(x + look(x));
  }
  bool pre_norm_;
};

// One decoder block, with the names of GluonNLP's cell: x (batch, length, units) attends to itself, each step to those
// before it and to itself, then to what an encoder gave, memory (batch, memory length, any); then the feed-forward
// layer. Each part as in the encoder block. A third array masks the memory: (batch, 1 or length, memory length).
struct TransformerDecoderCell : HybridBlock<TransformerDecoderCell> {
  TransformerDecoderCell(int64_t units, int64_t hidden_size, int num_heads, const TransformerOptions& options = {});
  auto hybrid_forward(auto, auto x, auto memory) { return ffn(inter(in(x), memory)); }
  auto hybrid_forward(auto, auto x, auto memory, auto mask) { return ffn(inter(in(x), memory, mask)); }
  // Goes on with sequences: x (batch, n, units) are their steps from `position` (1,) on; `cache`, as begin_cache()
  // gives it, has keys and values of the steps before and of the memory. Returns the result and the cache with the new
  // steps in it. For prediction: the attention drops nothing.
  template <class A>
  std::pair<A, std::vector<A>> hybrid_forward(auto F, const A& x, const std::vector<A>& cache, const A& position) {
    return advance(F, x, cache, position);
  }
  template <class A>
  std::pair<A, std::vector<A>> hybrid_forward(auto F, const A& x, const std::vector<A>& cache, const A& position,
                                              const A& mask) {
    return advance(F, x, cache, position, mask);
  }
  // For sequences of up to `capacity` steps beside memory (batch, memory length, any): zeros for keys and values of
  // these, and the memory's own, which are computed once. Does not block.
  std::vector<NDArray> begin_cache(const NDArray& memory, int64_t capacity) const;

  MultiHeadAttentionCell attention_cell_in;
  Dense proj_in;
  LayerNorm layer_norm_in;
  MultiHeadAttentionCell attention_cell_inter;
  Dense proj_inter;
  LayerNorm layer_norm_inter;
  Dropout dropout_layer;
  PositionwiseFFN ffn;

 private:
  static void check_cache(size_t arrays);
  auto in(const auto& x) {
    return added(x, proj_in, layer_norm_in, [&](const auto& a) { return attention_cell_in(a, a, a); });
  }
  auto inter(const auto& x, const auto& memory, const auto&... mask) {
    return added(x, proj_inter, layer_norm_inter,
                 [&](const auto& a) { return attention_cell_inter(a, memory, memory, mask...); });
  }
  template <class A>
  std::pair<A, std::vector<A>> advance(auto F, const A& x, const std::vector<A>& cache, const A& position,
                                       const auto&... mask) {
    check_cache(cache.size());
    std::vector<A> next;
    const A h = added(x, proj_in, layer_norm_in, [&](const A& a) {
      auto [attended, written] = attention_cell_in(a, std::vector<A>{cache[0], cache[1]}, position);
      next = written;
      return attended;
    });
    const A y = added(h, proj_inter, layer_norm_inter,
                      [&](const A& a) { return attention_cell_inter.look_up(F, a, cache[2], cache[3], mask...); });
    next.insert(next.end(), cache.begin() + 2, cache.end());
    return {ffn(y), next};
  }
  auto added(const auto& x, const auto& proj, const auto& norm, const auto& attend) {
    const auto look = [&](const auto& a) { return dropout_layer(proj(attend(a))); };
    return pre_norm_ ? x + look(norm(x)) : norm(x + look(x));
  }
  bool pre_norm_;
};

}  // namespace gluon::nn
}  // namespace kaon
