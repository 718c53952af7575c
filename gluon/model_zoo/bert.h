// A bidirectional encoder (Devlin et al. 2019): tokens to vectors that know what stands around them.
#pragma once

#include <source_location>
#include <tuple>
#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/nn/transformer.h"

namespace KAON_API kaon {
namespace gluon::model_zoo::text {

// BERT's base model, uncased, unless said otherwise.
struct BERTOptions {
  int64_t vocab_size = 30522;
  int64_t token_types = 2;
  int64_t max_length = 512;
  int64_t units = 768;
  int64_t hidden_size = 3072;  // of the feed-forward layers
  int num_layers = 12;
  int num_heads = 12;
  double dropout = 0.1;
};

// Embeddings of words, segments and places, LayerNorm, then blocks of attention. tokens and types (batch, length),
// valid_length (batch,): how many tokens each sample has; what stands behind them is not looked at. Parameters have the
// paths of GluonNLP's BERTModel, but for encoder: "encoder0.attention_cell.proj_query.weight".
struct BERT : HybridBlock<BERT> {
  explicit BERT(const BERTOptions& options = {});

  // (batch, length, units), and of the first token, through `pooler`, (batch, units). Throws ShapeError for more than
  // max_length tokens.
  auto hybrid_forward(auto F, auto tokens, auto types, auto valid_length) {
    check_tokens(tokens);
    auto places = F.slice_like(F(position_embed.weight), F.transpose(tokens, {1, 0}), {.axes = Shape{0}});
    name_limit(places);
    auto x = F.broadcast_add(word_embed(tokens) + token_type_embed(types), F.expand_dims(places, 0));
    x = embed_dropout(embed_layer_norm(x));
    auto mask = nn::valid_length_mask(F, x, valid_length);
    for (const auto& cell : cells) x = cell(x, mask);
    return std::pair(x, pooler(F.reshape(F.slice_axis(x, 1, 0, 1), {-3, 0})));
  }
  // For pre-training also scores: whether the second segment follows the first, (batch, 2), and which words stand at
  // masked_positions (batch, m), numbers of tokens: (batch, m, vocab_size), products with the embedding of words.
  auto hybrid_forward(auto F, auto tokens, auto types, auto valid_length, auto masked_positions) {
    auto [x, pooled] = hybrid_forward(F, tokens, types, valid_length);
    auto samples = F.broadcast_like(F.expand_dims(F.arange_like(masked_positions, {.axis = 0}), 1), masked_positions);
    auto masked = F.gather_nd(x, F.stack(std::vector{samples, masked_positions}));
    return std::tuple(x, pooled, classifier(pooled), decoder(masked));
  }
  using HybridBlock::operator();
  std::pair<NDArray, NDArray> operator()(const NDArray& tokens, const NDArray& types, const NDArray& valid_length,
                                         std::source_location site = std::source_location::current()) const;
  std::tuple<NDArray, NDArray, NDArray, NDArray> operator()(
      const NDArray& tokens, const NDArray& types, const NDArray& valid_length, const NDArray& masked_positions,
      std::source_location site = std::source_location::current()) const;

  nn::Embedding word_embed, token_type_embed, position_embed;
  nn::LayerNorm embed_layer_norm;
  nn::Dropout embed_dropout;
  std::vector<nn::TransformerEncoderCell> cells;
  nn::Dense pooler, classifier;
  nn::HybridSequential decoder;  // of masked words; its last layer has the weight of word_embed
  Parameter decoder_bias;        // of that layer

 private:
  void check_tokens(const NDArray& tokens) const;
  void check_tokens(const Symbol& tokens) const;
  void name_limit(const NDArray&) const {}
  void name_limit(const Symbol& places) const;  // in errors of traces that are used for other shapes
  int64_t max_length_;
};

}  // namespace gluon::model_zoo::text
}  // namespace kaon
