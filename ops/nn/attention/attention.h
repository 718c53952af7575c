// Attention: as one operator, with a cache of keys and values and rotary positions; and MXNet's products of queries,
// keys and values that are stored side by side.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// Which keys query i of n may look at, of m keys: all; those up to i; or those up to m - n + i, so that the last query
// sees the last key.
enum class CausalMask : uint8_t { none, upper_left, lower_right };
constexpr std::array<std::string_view, 3> enum_names(CausalMask) { return {"none", "upper_left", "lower_right"}; }

namespace ops {
enum class AttentionPart : uint8_t { selfatt_qk, selfatt_valatt, encdec_qk, encdec_valatt };

constexpr OpTraits attention_traits(AttentionPart part) {
  switch (part) {
    case AttentionPart::selfatt_qk:
      return {.name = "_contrib_interleaved_matmul_selfatt_qk", .inputs = Names("queries_keys_values")};
    case AttentionPart::selfatt_valatt:
      return {.name = "_contrib_interleaved_matmul_selfatt_valatt",
              .inputs = Names("queries_keys_values", "attention")};
    case AttentionPart::encdec_qk:
      return {.name = "_contrib_interleaved_matmul_encdec_qk", .inputs = Names("queries", "keys_values")};
    case AttentionPart::encdec_valatt:
      return {.name = "_contrib_interleaved_matmul_encdec_valatt", .inputs = Names("keys_values", "attention")};
  }
  return {};
}

constexpr OpTraits attention_traits(bool has_mask, bool drops) {
  return {.name = "scaled_dot_product_attention",
          .inputs = has_mask ? Names("query", "key", "value", "mask", "valid_length")
                             : Names("query", "key", "value", "valid_length"),
          .outputs = 2,
          .visible_outputs = 1,
          .random = drops,
          .mode_dependent = drops,
          .in_mxnet = false};
}
}  // namespace ops

namespace op {
// Attention with `heads` heads of d numbers. For each step and sample, self attention has the queries, keys and values
// of the first head, then of the second ...: (steps, batch, heads 3 d); attention to another sequence has the queries
// (steps, batch, heads d), and keys and values of each head (other steps, batch, heads 2 d).
//   qk      queries keys^T / sqrt(d): (batch heads, steps, other steps)
//   valatt  attention values: (batch heads, steps, other steps) to (steps, batch, heads d)
// Floating dtypes.
template <AttentionPart P>
struct InterleavedMatmul {
  int heads = 1;
  static constexpr OpTraits traits = ops::attention_traits(P);
  static constexpr void fields(auto field) { field("heads", &InterleavedMatmul::heads, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

using SelfAttentionQK = InterleavedMatmul<AttentionPart::selfatt_qk>;
using SelfAttentionValue = InterleavedMatmul<AttentionPart::selfatt_valatt>;
using EncoderDecoderQK = InterleavedMatmul<AttentionPart::encdec_qk>;
using EncoderDecoderValue = InterleavedMatmul<AttentionPart::encdec_valatt>;

// Their members are in attention.cpp.
extern template struct InterleavedMatmul<AttentionPart::selfatt_qk>;
extern template struct InterleavedMatmul<AttentionPart::selfatt_valatt>;
extern template struct InterleavedMatmul<AttentionPart::encdec_qk>;
extern template struct InterleavedMatmul<AttentionPart::encdec_valatt>;

// x / sqrt(length of x's last axis).
struct DivSqrtDim {
  static constexpr OpTraits traits{.name = "_contrib_div_sqrt_dim"};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// softmax(scale query key^T + mask) value for each head (Vaswani et al. 2017), without an array of all scores: memory
// grows with the number of queries and keys, not with their product (Dao 2023).
//   query (batch, heads, n, dim), key (batch, kv_heads, m, dim), value (batch, kv_heads, m, value_dim)
// to (batch, heads, n, value_dim). Each heads / kv_heads neighbouring heads share keys and values. scale: 1 / sqrt(dim)
// where not given. mask, with use_mask: up to 4 dimensions that broadcast to (batch, heads, n, m); numbers of the
// query's dtype are added to the scores, bools say where a query may look. valid_length (batch,), with
// use_valid_length: sample i has so many keys, at most m, and what is stored behind them is not read; they count as the
// m of `causal`. A query that may look nowhere, or whose scores are all -infinity, gets 0. Excluded scores are ignored,
// but a value that has a score counts with weight 0, so that NaN and infinity in it give NaN. dropout: in training a
// weight of the softmax is 0 with this probability, else divided by 1 - dropout (Dao 2023, appendix B.3); which ones
// depends on the place alone. Hidden: the logarithms of the sums of e^score (batch, heads, n), float32 or float64,
// infinity where there are none; with dropout also what the weights were dropped by, uint32 (5,). The gradient of an
// additive mask needs an array of all scores, the others do not; with dropout it throws StateError. Floating dtypes,
// 16-bit ones in float32. PyTorch's is_causal is upper_left.
struct ScaledDotProductAttention {
  std::optional<double> scale{};
  CausalMask causal = CausalMask::none;
  bool use_mask = false;
  bool use_valid_length = false;
  double dropout = 0;
  static constexpr OpTraits traits = ops::attention_traits(true, false),
                            traits_without_mask = ops::attention_traits(false, false),
                            dropping_traits = ops::attention_traits(true, true),
                            dropping_traits_without_mask = ops::attention_traits(false, true);
  static constexpr void fields(auto field) {
    field("scale", &ScaledDotProductAttention::scale);
    field("causal", &ScaledDotProductAttention::causal);
    field("use_mask", &ScaledDotProductAttention::use_mask);
    field("use_valid_length", &ScaledDotProductAttention::use_valid_length);
    field("dropout", &ScaledDotProductAttention::dropout);
  }
  static const OpDef def;
  int num_inputs() const { return 3 + int(use_mask) + int(use_valid_length); }
  ops::IndexUse index_use(std::span<const TensorView> inputs) const {
    if (!use_valid_length) return {};
    return {num_inputs() - 1, inputs[1].shape[2] + 1};
  }
  int num_outputs() const { return 2 + int(dropout > 0); }
  const OpTraits& traits_of() const {
    if (dropout == 0) return use_mask ? traits : traits_without_mask;
    return use_mask ? dropping_traits : dropping_traits_without_mask;
  }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const ops::RowQuery& q) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// The gradients of ScaledDotProductAttention's query, key and value. With dropout the last input is its third output.
struct BackwardScaledDotProductAttention {
  std::optional<double> scale{};
  CausalMask causal = CausalMask::none;
  bool use_mask = false;
  bool use_valid_length = false;
  double dropout = 0;
  static constexpr OpTraits traits{
      .name = "_backward_scaled_dot_product_attention",
      .inputs = Names("head", "output", "logsum", "query", "key", "value", "mask", "valid_length", "drawn"),
      .outputs = 3,
      .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("scale", &BackwardScaledDotProductAttention::scale);
    field("causal", &BackwardScaledDotProductAttention::causal);
    field("use_mask", &BackwardScaledDotProductAttention::use_mask);
    field("use_valid_length", &BackwardScaledDotProductAttention::use_valid_length);
    field("dropout", &BackwardScaledDotProductAttention::dropout);
  }
  static const OpDef def;
  int num_inputs() const { return 6 + int(use_mask) + int(use_valid_length) + int(dropout > 0); }
  void infer(InferContext& c) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// cache[b, :, p : p + n, :] <- data[b], with p = position[b]: keys or values of n new steps into those of all steps.
// cache (batch, heads, capacity, dim), data (batch, heads, n, dim), of one dtype, any; position (batch,) or (1,), of
// any dtype but bool. Steps outside of the cache fail it with IndexError, which ends the work of a GPU.
// With ScaledDotProductAttention, lower_right and valid_length p + n, the new steps see themselves and those before. No
// outputs: the updated cache is the result.
struct CacheAppend {
  static constexpr OpTraits traits{.name = "cache_append",
                                   .inputs = Names("cache", "data", "position"),
                                   .outputs = 0,
                                   .mutates = ops::bit(0),
                                   .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Rotary positions (Su et al. 2021) for data (..., length, dim): step t turns pair i of its first `dims` numbers by
// the angle p / base^(2 i / dims), to (x cos - y sin, x sin + y cos). p: offset + t, or offset + positions[t], or
// [b, t] for sample b, of an array (length,) or (batch, length) of numbers, with use_positions. The pairs are (i, i +
// dims / 2), or neighbours if interleaved. dims 0: all of dim; what is behind them stays. inverse: by the opposite
// angle, which is the gradient. Floating dtypes; no gradient flows to positions.
struct RotaryEmbedding {
  double base = 10000;
  double offset = 0;
  int64_t dims = 0;
  bool interleaved = false;
  bool inverse = false;
  bool use_positions = false;
  static constexpr OpTraits traits{.name = "rotary_embedding", .inputs = Names("data", "positions"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("base", &RotaryEmbedding::base);
    field("offset", &RotaryEmbedding::offset);
    field("dims", &RotaryEmbedding::dims);
    field("interleaved", &RotaryEmbedding::interleaved);
    field("inverse", &RotaryEmbedding::inverse);
    field("use_positions", &RotaryEmbedding::use_positions);
  }
  static const OpDef def;
  int num_inputs() const { return 1 + int(use_positions); }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const ops::RowQuery& q) const;
};
}  // namespace op
void run_cpu(const op::ScaledDotProductAttention& op, KernelContext& c);
void run_cuda(const op::ScaledDotProductAttention& op, KernelContext& c);
void run_cpu(const op::BackwardScaledDotProductAttention& op, KernelContext& c);
void run_cuda(const op::BackwardScaledDotProductAttention& op, KernelContext& c);
void run_cpu(const op::CacheAppend& op, KernelContext& c);
void run_cuda(const op::CacheAppend& op, KernelContext& c);
void run_cpu(const op::RotaryEmbedding& op, KernelContext& c);
void run_cuda(const op::RotaryEmbedding& op, KernelContext& c);

}  // namespace kaon
