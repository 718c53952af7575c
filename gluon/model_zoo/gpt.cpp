#include "kaon/gluon/model_zoo/gpt.h"

#include <fmt/format.h>

#include <tuple>

#include "kaon/gluon/model_zoo/internal/check_tokens.h"

namespace kaon::gluon::model_zoo::text {

GPT::GPT(const GPTOptions& o)
    : HybridBlock("gpt"),
      word_embed(child("word_embed", nn::Embedding(o.vocab_size, o.units))),
      position_embed(child("position_embed", nn::Embedding(o.context, o.units))),
      embed_dropout(child("embed_dropout", nn::Dropout(o.dropout))),
      layer_norm(child("layer_norm", nn::LayerNorm({.in_channels = o.units}))),
      vocab_size_(o.vocab_size),
      context_(o.context) {
  const nn::TransformerOptions options{.dropout = o.dropout, .pre_norm = true, .causal = CausalMask::upper_left};
  for (int i = 0; i < o.num_layers; ++i) {
    const int64_t hidden = o.hidden_size ? o.hidden_size : 4 * o.units;
    cells.push_back(
        child(fmt::format("cells{}", i), nn::TransformerEncoderCell(o.units, hidden, o.num_heads, options)));
  }
}

NDArray GPT::operator()(const NDArray& tokens, std::source_location site) const {
  detail::check_tokens(*node_, site, "GPT", "the context", context_, tokens);
  return HybridBlock::operator()(tokens, site);
}

std::pair<NDArray, std::vector<NDArray>> GPT::operator()(const NDArray& tokens, const std::vector<NDArray>& cache,
                                                         const NDArray& position, std::source_location site) const {
  detail::check_tokens(*node_, site, "GPT", "the context", context_, tokens);
  return HybridBlock::operator()(tokens, cache, position, site);
}

std::vector<NDArray> GPT::begin_cache(int64_t batch, int64_t capacity) const {
  std::vector<NDArray> cache;
  for (const auto& cell : cells) {
    for (NDArray& a : cell.attention_cell.begin_cache(batch, capacity ? capacity : context_)) cache.push_back(a);
  }
  return cache;
}

void GPT::check_cache(size_t arrays) const {
  if (arrays != 2 * cells.size()) {
    throw ValueError(
        fmt::format("[GPT] the cache has 2 arrays a layer, expected {}, got {}", 2 * cells.size(), arrays));
  }
}

NDArray GPT::generate(const NDArray& tokens, int64_t count, const GenerateOptions& o) const {
  if (tokens.ndim() != 2 || tokens.shape()[1] < 1) {
    throw ShapeError(
        fmt::format("[GPT] generate needs tokens (batch, length) and at least one, got {}", tokens.shape()));
  }
  const int64_t given = tokens.shape()[1];
  if (count < 0 || given + count > context_) {
    throw ValueError(
        fmt::format("[GPT] {} and {} more tokens do not fit into a context of {}", given, count, context_));
  }
  if (!(o.temperature >= 0)) {
    throw ValueError(fmt::format("[GPT] the temperature must be 0 or more, got {}", o.temperature));
  }
  std::vector<NDArray> cache;
  if (o.use_cache && count > 0) cache = begin_cache(tokens.shape()[0], given + count);
  std::vector<NDArray> all{tokens};
  for (int64_t i = 0; i < count; ++i) {
    NDArray scores;
    if (o.use_cache) {  // it takes what it has not seen: the tokens given, then one at a time
      const NDArray position = nd.full({1}, i == 0 ? 0 : given + i - 1, {.device = tokens.device()});
      std::tie(scores, cache) = (*this)(all.back(), cache, position);
    } else {
      scores = (*this)(nd.concat(all, {.dim = 1}));
    }
    const NDArray last = nd.reshape(nd.slice_axis(scores, 1, -1, std::nullopt), {-3, 0});
    const NDArray next =
        o.temperature > 0 ? nd.sample_multinomial(nd.softmax(last / o.temperature)) : nd.argmax(last, {.axis = 1});
    all.push_back(nd.cast(nd.reshape(next, {-1, 1}), tokens.dtype()));
  }
  return nd.concat(all, {.dim = 1});
}

void GPT::check_tokens(const NDArray& tokens) const { detail::check_tokens("GPT", "the context", context_, tokens); }
void GPT::check_tokens(const Symbol& tokens) const { detail::check_tokens("GPT", "the context", context_, tokens); }
void GPT::name_limit(const Symbol& places) const { detail::name_limit("GPT", "the context", context_, places); }

}  // namespace kaon::gluon::model_zoo::text
