#include "kaon/gluon/nn/transformer.h"

#include <fmt/format.h>

#include <cmath>

namespace kaon::gluon::nn {
namespace {

DenseOptions projection(const MultiHeadAttentionOptions& o) {
  return {.use_bias = o.use_bias,
          .flatten = false,
          .weight_initializer = o.weight_initializer,
          .bias_initializer = o.bias_initializer,
          .in_units = o.in_units};
}

}  // namespace

MultiHeadAttentionCell::MultiHeadAttentionCell(int64_t units, int num_heads, const MultiHeadAttentionOptions& options)
    : HybridBlock("multiheadattentioncell"),
      proj_query(child("proj_query", Dense(units, projection(options)))),
      proj_key(child("proj_key", Dense(units, projection(options)))),
      proj_value(child("proj_value", Dense(units, projection(options)))),
      units_(units),
      num_heads_(num_heads),
      causal_(options.causal),
      dropout_(options.dropout) {
  if (num_heads < 1 || units % num_heads != 0) {
    throw ValueError(
        fmt::format("[MultiHeadAttentionCell] num_heads must divide units, got {} and {}", num_heads, units));
  }
  if (!(dropout_ >= 0 && dropout_ <= 1)) {
    throw ValueError(fmt::format("[MultiHeadAttentionCell] dropout must lie in [0, 1], got {}", dropout_));
  }
}

std::vector<NDArray> MultiHeadAttentionCell::begin_cache(int64_t batch, int64_t capacity) const {
  const Shape shape{batch, num_heads_, capacity, units_ / num_heads_};
  const ArrayOptions like{.dtype = proj_key.weight.dtype(), .device = proj_key.weight.data().device()};
  return {nd.zeros(shape, like), nd.zeros(shape, like)};
}

std::vector<NDArray> MultiHeadAttentionCell::project(const NDArray& memory) const {
  const auto by_head = [&](const NDArray& x) {
    return nd.transpose(nd.reshape(x, {0, 0, -4, num_heads_, -1}), {0, 2, 1, 3});
  };
  return {by_head(proj_key(memory)), by_head(proj_value(memory))};
}

void MultiHeadAttentionCell::check_cache(size_t arrays) {
  if (arrays != 2) {
    throw ValueError(
        fmt::format("[MultiHeadAttentionCell] the cache is keys and values, expected 2 arrays, got {}", arrays));
  }
}

}  // namespace kaon::gluon::nn
