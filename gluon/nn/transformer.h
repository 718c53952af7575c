// The encoder block of a transformer, and the feed-forward layer in it.
#pragma once

#include "kaon/gluon/nn/attention.h"
#include "kaon/gluon/nn/norm.h"
#include "kaon/gluon/nn/sequential.h"

namespace kaon::gluon::nn {

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

}  // namespace kaon::gluon::nn
