#include "kaon/gluon/model_zoo/bert.h"

#include <fmt/format.h>

#include "kaon/gluon/model_zoo/internal/check_tokens.h"

namespace kaon::gluon::model_zoo::text {
namespace {
constexpr double epsilon = 1e-12;  // of every LayerNorm
}

BERT::BERT(const BERTOptions& o)
    : HybridBlock("bert"),
      word_embed(child("word_embed", nn::Embedding(o.vocab_size, o.units))),
      token_type_embed(child("token_type_embed", nn::Embedding(o.token_types, o.units))),
      position_embed(child("position_embed", nn::Embedding(o.max_length, o.units))),
      embed_layer_norm(child("layer_norm", nn::LayerNorm({.epsilon = epsilon, .in_channels = o.units}))),
      embed_dropout(child("embed_dropout", nn::Dropout(o.dropout))),
      pooler(child("pooler", nn::Dense(o.units, {.activation = "tanh", .flatten = false, .in_units = o.units}))),
      classifier(child("classifier", nn::Dense(2, {.flatten = false, .in_units = o.units}))),
      decoder(
          child("decoder", nn::HybridSequential(nn::Dense(o.units, {.flatten = false, .in_units = o.units}), nn::GELU(),
                                                nn::LayerNorm({.epsilon = epsilon, .in_channels = o.units})))),
      max_length_(o.max_length) {
  const nn::Dense scores(o.vocab_size, {.flatten = false, .in_units = o.units});
  decoder.add(scores);
  nn::Dense(scores).share_parameters(word_embed);
  decoder_bias = scores.bias;
  const nn::TransformerOptions options{.dropout = o.dropout, .layer_norm_eps = epsilon};
  for (int i = 0; i < o.num_layers; ++i) {
    cells.push_back(
        child(fmt::format("encoder{}", i), nn::TransformerEncoderCell(o.units, o.hidden_size, o.num_heads, options)));
  }
}

std::pair<NDArray, NDArray> BERT::operator()(const NDArray& tokens, const NDArray& types, const NDArray& valid_length,
                                             std::source_location site) const {
  detail::check_tokens(*node_, site, "BERT", "max_length", max_length_, tokens);
  return HybridBlock::operator()(tokens, types, valid_length, site);
}

std::tuple<NDArray, NDArray, NDArray, NDArray> BERT::operator()(const NDArray& tokens, const NDArray& types,
                                                                const NDArray& valid_length,
                                                                const NDArray& masked_positions,
                                                                std::source_location site) const {
  detail::check_tokens(*node_, site, "BERT", "max_length", max_length_, tokens);
  return HybridBlock::operator()(tokens, types, valid_length, masked_positions, site);
}

void BERT::check_tokens(const NDArray& tokens) const {
  detail::check_tokens("BERT", "max_length", max_length_, tokens);
}
void BERT::check_tokens(const Symbol& tokens) const { detail::check_tokens("BERT", "max_length", max_length_, tokens); }
void BERT::name_limit(const Symbol& places) const { detail::name_limit("BERT", "max_length", max_length_, places); }

}  // namespace kaon::gluon::model_zoo::text
