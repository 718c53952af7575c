// The dense layer.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

namespace op {
// y = x W^T + b with W (num_hidden, in) and b (num_hidden,). With flatten, x is (batch, everything else) and y
// (batch, num_hidden); without, the last axis of x is contracted and the others stay. Floating dtypes.
struct FullyConnected {
  int num_hidden = 0;
  bool no_bias = false;
  bool flatten = true;
  PostOps post_ops{};
  static constexpr OpTraits traits{.name = "FullyConnected",
                                   .inputs = Names("data", "weight", "bias", "scale", "addend"),
                                   .infers = bit(1) | bit(2)};
  static constexpr void fields(auto field) {
    field("num_hidden", &FullyConnected::num_hidden, true);
    field("no_bias", &FullyConnected::no_bias);
    field("flatten", &FullyConnected::flatten);
    field("__post_ops__", &FullyConnected::post_ops);
  }
  static const OpDef def;
  int num_inputs() const { return 3 - int(no_bias) + post_ops.inputs(); }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2; }
};
}  // namespace op
void run_cpu(const op::FullyConnected& op, KernelContext& c);
void run_cuda(const op::FullyConnected& op, KernelContext& c);

}  // namespace kaon
