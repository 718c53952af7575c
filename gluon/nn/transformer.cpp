#include "kaon/gluon/nn/transformer.h"

#include <fmt/format.h>

namespace kaon::gluon::nn {
namespace {

Dense dense(int64_t units, int64_t in_units, const TransformerOptions& o) {
  return Dense(units, {.flatten = false,
                       .weight_initializer = o.weight_initializer,
                       .bias_initializer = o.bias_initializer,
                       .in_units = in_units});
}

MultiHeadAttentionCell attention(int64_t units, int num_heads, const TransformerOptions& o, CausalMask causal,
                                 int64_t in_units) {
  return MultiHeadAttentionCell(units, num_heads,
                                {.dropout = o.dropout,
                                 .causal = causal,
                                 .weight_initializer = o.weight_initializer,
                                 .bias_initializer = o.bias_initializer,
                                 .in_units = in_units});
}

AnyBlock activation_of(const TransformerOptions& o) {
  if (o.activation.is_set()) return Activation(o.activation);
  return GELU();
}

LayerNorm norm(int64_t units, const TransformerOptions& o) {
  return LayerNorm({.epsilon = o.layer_norm_eps, .in_channels = units});
}

}  // namespace

PositionwiseFFN::PositionwiseFFN(int64_t units, int64_t hidden_size, const TransformerOptions& options)
    : HybridBlock("positionwiseffn"),
      ffn_1(child("ffn_1", dense(hidden_size, units, options))),
      activation(child("activation", activation_of(options))),
      ffn_2(child("ffn_2", dense(units, hidden_size, options))),
      dropout_layer(child("dropout_layer", Dropout(options.dropout))),
      layer_norm(child("layer_norm", norm(units, options))),
      pre_norm_(options.pre_norm) {}

TransformerEncoderCell::TransformerEncoderCell(int64_t units, int64_t hidden_size, int num_heads,
                                               const TransformerOptions& options)
    : HybridBlock("transformerencodercell"),
      attention_cell(child("attention_cell", attention(units, num_heads, options, options.causal, units))),
      proj(child("proj", dense(units, units, options))),
      dropout_layer(child("dropout_layer", Dropout(options.dropout))),
      layer_norm(child("layer_norm", norm(units, options))),
      ffn(child("ffn", PositionwiseFFN(units, hidden_size, options))),
      pre_norm_(options.pre_norm) {}

TransformerDecoderCell::TransformerDecoderCell(int64_t units, int64_t hidden_size, int num_heads,
                                               const TransformerOptions& options)
    : HybridBlock("transformerdecodercell"),
      attention_cell_in(
          child("attention_cell_in", attention(units, num_heads, options, CausalMask::upper_left, units))),
      proj_in(child("proj_in", dense(units, units, options))),
      layer_norm_in(child("layer_norm_in", norm(units, options))),
      attention_cell_inter(child("attention_cell_inter", attention(units, num_heads, options, CausalMask::none, 0))),
      proj_inter(child("proj_inter", dense(units, units, options))),
      layer_norm_inter(child("layer_norm_inter", norm(units, options))),
      dropout_layer(child("dropout_layer", Dropout(options.dropout))),
      ffn(child("ffn", PositionwiseFFN(units, hidden_size, options))),
      pre_norm_(options.pre_norm) {}

std::vector<NDArray> TransformerDecoderCell::begin_cache(const NDArray& memory, int64_t capacity) const {
  if (memory.ndim() != 3) {
    throw ShapeError(fmt::format("[TransformerDecoderCell] begin_cache: expected memory (batch, length, units), got {}",
                                 memory.shape().str()));
  }
  std::vector<NDArray> cache = attention_cell_in.begin_cache(memory.shape()[0], capacity);
  for (NDArray& a : attention_cell_inter.project(memory)) cache.push_back(a);
  return cache;
}

void TransformerDecoderCell::check_cache(size_t arrays) {
  if (arrays != 4) {
    throw ValueError(fmt::format(
        "[TransformerDecoderCell] the cache is keys and values of steps and of memory, expected 4 arrays, got {}",
        arrays));
  }
}

}  // namespace kaon::gluon::nn
