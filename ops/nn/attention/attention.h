// Attention: products of queries, keys and values that are stored side by side.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

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
}  // namespace op

}  // namespace kaon
