// A decoder-only transformer (Radford et al. 2019): it learns which token comes next, and writes.
#pragma once

#include <source_location>
#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/nn/transformer.h"

namespace KAON_API kaon {
namespace gluon::model_zoo::text {

// GPT-2's small model unless said otherwise.
struct GPTOptions {
  int64_t vocab_size = 50257;
  int64_t context = 1024;  // the most tokens that it looks at
  int64_t units = 768;
  int64_t hidden_size = 0;  // of the feed-forward layers; 0: 4 units
  int num_layers = 12;
  int num_heads = 12;
  double dropout = 0.1;
};

struct GenerateOptions {
  double temperature = 0;  // 0: the likeliest token; else one drawn from softmax(scores / temperature)
  bool use_cache = true;   // false: computes all tokens again for each new one
};

// Tokens (batch, length) to scores of the next token at each place, (batch, length, vocab_size). Embeddings of tokens
// and places, blocks that are normalised before each part, a last LayerNorm; the scores are products with the
// embedding of tokens. Throws ShapeError for more than `context` tokens.
struct GPT : HybridBlock<GPT> {
  explicit GPT(const GPTOptions& options = {});

  auto hybrid_forward(auto F, auto tokens) {
    check_tokens(tokens);
    auto places = F.slice_like(F(position_embed.weight), F.transpose(tokens, {1, 0}), {.axes = Shape{0}});
    name_limit(places);
    auto x = embed_dropout(F.broadcast_add(word_embed(tokens), F.expand_dims(places, 0)));
    for (const auto& cell : cells) x = cell(x);
    return scores(F, x);
  }
  // Goes on with sequences: tokens (batch, n) are those from `position` (1,) on; `cache`, as begin_cache() gives it,
  // has keys and values of those before. Returns the scores, and the cache with these tokens in it. For prediction.
  // Tokens behind the cache's end are left out of it.
  template <class A>
  std::pair<A, std::vector<A>> hybrid_forward(auto F, const A& tokens, const std::vector<A>& cache, const A& position) {
    check_cache(cache.size());
    check_tokens(tokens);
    const A steps = F.arange_like(F.cast(tokens, DType::float32), {.axis = 1});
    const A places = position_embed(F.broadcast_add(steps, F.cast(position, DType::float32)));
    A x = F.broadcast_add(word_embed(tokens), F.expand_dims(places, 0));
    std::vector<A> next;
    for (size_t i = 0; i < cells.size(); ++i) {
      auto [y, written] = cells[i](x, std::vector<A>{cache[2 * i], cache[2 * i + 1]}, position);
      x = y;
      next.insert(next.end(), written.begin(), written.end());
    }
    return {scores(F, x), next};
  }
  using HybridBlock::operator();
  NDArray operator()(const NDArray& tokens, std::source_location site = std::source_location::current()) const;
  std::pair<NDArray, std::vector<NDArray>> operator()(
      const NDArray& tokens, const std::vector<NDArray>& cache, const NDArray& position,
      std::source_location site = std::source_location::current()) const;
  // Two arrays a layer for the cache of `capacity` tokens, `context` of them for 0.
  std::vector<NDArray> begin_cache(int64_t batch, int64_t capacity = 0) const;

  // The tokens (batch, length), at least one, with `count` more, each of them chosen by the scores after those before
  // it. Does not block. Throws ValueError when there would be more than `context`, and for a negative temperature.
  NDArray generate(const NDArray& tokens, int64_t count, const GenerateOptions& options = {}) const;

  nn::Embedding word_embed, position_embed;
  nn::Dropout embed_dropout;
  std::vector<nn::TransformerEncoderCell> cells;
  nn::LayerNorm layer_norm;

 private:
  void check_tokens(const NDArray& tokens) const;
  void check_tokens(const Symbol& tokens) const;
  void name_limit(const NDArray&) const {}
  void name_limit(const Symbol& places) const;  // in errors of traces that are used for other shapes
  void check_cache(size_t arrays) const;
  auto scores(auto F, const auto& x) {
    return F.FullyConnected(layer_norm(x), F(word_embed.weight),
                            {.num_hidden = int(vocab_size_), .no_bias = true, .flatten = false});
  }
  int64_t vocab_size_, context_;
};

}  // namespace gluon::model_zoo::text
}  // namespace kaon
