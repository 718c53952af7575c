// The operator that recomputes the value of a BatchNorm.
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

namespace op {
// y of BatchNorm, bit for bit, from the statistics that it has used: its two hidden outputs. Exists in plans only.
struct RematerializeBatchNorm {
  bool fix_gamma = true;
  int axis = 1;
  static constexpr OpTraits traits{.name = "_rematerialize_batch_norm",
                                   .inputs = Names("data", "gamma", "beta", "mean", "inverse_std"),
                                   .any_layout = true,
                                   .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("fix_gamma", &RematerializeBatchNorm::fix_gamma);
    field("axis", &RematerializeBatchNorm::axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
};
}  // namespace op
void run_cpu(const op::RematerializeBatchNorm& op, KernelContext& c);
void run_cuda(const op::RematerializeBatchNorm& op, KernelContext& c);

}  // namespace kaon
