// Attention, and the encoder of the transformer made of it.
#pragma once

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
    if (!drops_)
      return finish(F, F.scaled_dot_product_attention(by_head(F, proj_query(query)), by_head(F, proj_key(key)),
                                                      by_head(F, proj_value(value))));
    return attend(F, F.softmax(scores(F, query, key)), value);
  }

  auto hybrid_forward(auto F, auto query, auto key, auto value, auto mask) {
    mask = F.reshape(mask, {0, -4, 1, -1, 0});  // (batch, 1, length, memory)
    if (!drops_) {
      return finish(F, F.scaled_dot_product_attention(by_head(F, proj_query(query)), by_head(F, proj_key(key)),
                                                      by_head(F, proj_value(value)), F.cast(mask, DType::boolean),
                                                      {.use_mask = true}));
    }
    auto all = F.reshape(scores(F, query, key), {-4, -1, num_heads_, 0, 0});  // (batch, heads, length, memory)
    mask = F.cast(mask, proj_query.weight.dtype());
    auto weights = F.softmax(F.broadcast_add(all, (mask - 1) * far_below()));
    auto y = attend(F, F.reshape(F.broadcast_mul(weights, mask), {-3, 0, 0}), value);
    // Refuses a mask for more queries than there are, to which the scores were broadcast.
    return F.reshape_like(y, query, {.lhs_begin = 0, .lhs_end = 2, .rhs_begin = 0, .rhs_end = 2});
  }

  Dense proj_query, proj_key, proj_value;
  Dropout dropout_layer;

 private:
  // (batch, steps, units) to (batch, heads, steps, units / heads), and back
  auto by_head(auto F, const auto& x) { return F.transpose(F.reshape(x, {0, 0, -4, num_heads_, -1}), {0, 2, 1, 3}); }
  auto finish(auto F, const auto& y) { return F.reshape(F.transpose(y, {0, 2, 1, 3}), {0, 0, -3}); }
  // With dropout of the weights, these are computed: (batch * heads, steps, units / heads).
  auto split_heads(auto F, const auto& x) { return F.reshape(by_head(F, x), {-3, 0, 0}); }
  auto scores(auto F, const auto& query, const auto& key) {  // (batch * heads, length, memory)
    auto q = split_heads(F, proj_query(query) * scale_);
    return F.batch_dot(q, split_heads(F, proj_key(key)), {.transpose_b = true});
  }
  auto attend(auto F, const auto& weights, const auto& value) {
    auto y = F.batch_dot(dropout_layer(weights), split_heads(F, proj_value(value)));
    return finish(F, F.reshape(y, {-4, -1, num_heads_, 0, 0}));
  }
  // Subtracted from masked scores: their exp is 0, and float16 can hold it.
  double far_below() const { return proj_query.weight.dtype() == DType::float16 ? 3e4 : 1e30; }

  int num_heads_;
  double scale_;
  bool drops_;
};

struct TransformerOptions {
  double dropout = 0;
  ActivationName activation{};  // of the feed-forward layer; unset: GELU
  double layer_norm_eps = 1e-5;
  init::Initializer weight_initializer{};  // unset: the one given to initialize()
  init::Initializer bias_initializer = init::Zero();
};
static_assert(std::is_trivially_destructible_v<TransformerOptions>);

// x (batch, length, units) to layer_norm(x + dropout(ffn_2(activation(ffn_1(x))))), ffn_1 being hidden_size wide.
struct PositionwiseFFN : HybridBlock<PositionwiseFFN> {
  PositionwiseFFN(int64_t units, int64_t hidden_size, const TransformerOptions& options = {});
  auto hybrid_forward(auto, auto x) { return layer_norm(x + dropout_layer(ffn_2(activation(ffn_1(x))))); }

  Dense ffn_1;
  AnyBlock activation;
  Dense ffn_2;
  Dropout dropout_layer;
  LayerNorm layer_norm;
};

// One encoder block, normalised after each sum as in Vaswani et al. 2017, with the names of GluonNLP's cell: h =
// layer_norm(x + dropout(proj(attention(x, x, x)))), y = ffn(h). x and y are (batch, length, units). A second array
// masks the attention: see MultiHeadAttentionCell and valid_length_mask.
struct TransformerEncoderCell : HybridBlock<TransformerEncoderCell> {
  TransformerEncoderCell(int64_t units, int64_t hidden_size, int num_heads, const TransformerOptions& options = {});
  auto hybrid_forward(auto, auto x) { return finish(x, attention_cell(x, x, x)); }
  auto hybrid_forward(auto, auto x, auto mask) { return finish(x, attention_cell(x, x, x, mask)); }

  MultiHeadAttentionCell attention_cell;
  Dense proj;
  Dropout dropout_layer;
  LayerNorm layer_norm;
  PositionwiseFFN ffn;

 private:
  auto finish(const auto& x, const auto& attended) { return ffn(layer_norm(x + dropout_layer(proj(attended)))); }
};

}  // namespace gluon::nn
}  // namespace kaon
