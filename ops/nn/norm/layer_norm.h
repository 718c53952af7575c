// Layer normalisation and its gradient.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// y = gamma (x - mean) / std + beta with mean and std = sqrt(var + eps) over `axis`, var biased; gamma and beta have
// the length of that axis. Outputs: y; hidden: mean and std, of x's shape without the axis. Floating dtypes.
struct LayerNorm {
  int axis = -1;
  double eps = 1e-5;
  bool output_mean_var = false;
  static constexpr OpTraits traits{.name = "LayerNorm",
                                   .inputs = Names("data", "gamma", "beta"),
                                   .outputs = 3,
                                   .visible_outputs = 1,
                                   .infers = bit(1) | bit(2),
                                   .recomputable = true};
  static constexpr void fields(auto field) {
    field("axis", &LayerNorm::axis);
    field("eps", &LayerNorm::eps);
    field("output_mean_var", &LayerNorm::output_mean_var);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2 && !q.is_first(axis); }
};
void run_cpu(const LayerNorm& op, KernelContext& c);
void run_cuda(const LayerNorm& op, KernelContext& c);

// The gradients of data, gamma and beta from LayerNorm's two hidden outputs.
struct BackwardLayerNorm {
  int axis = -1;
  static constexpr OpTraits traits{.name = "_backward_LayerNorm",
                                   .inputs = Names("head", "data", "gamma", "mean", "std"),
                                   .outputs = 3,
                                   .in_mxnet = false};
  static constexpr void fields(auto field) { field("axis", &BackwardLayerNorm::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const BackwardLayerNorm& op, KernelContext& c);
void run_cuda(const BackwardLayerNorm& op, KernelContext& c);

}  // namespace kaon
