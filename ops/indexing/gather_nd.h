// gather_nd: slices of an array by tuples of indices.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// out[j, ...] = data[indices[0, j], ..., indices[m - 1, j], ...]: indices (m, j...), out (j..., data.shape[m:]).
// Negative indices count from the end; others outside fail with IndexError, thrown at the wait, and end the work of a
// GPU (docs/gpu.md). Gradient: scatter-add.
struct GatherNd {
  static constexpr OpTraits traits{.name = "gather_nd", .inputs = Names("data", "indices")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const GatherNd& op, KernelContext& c);
void run_cuda(const GatherNd& op, KernelContext& c);

// Gradient of gather_nd: zeros of `shape` with the slices of head added at the indices, in index order.
struct GatherNdGrad {
  Shape shape{};
  static constexpr OpTraits traits{
      .name = "_backward_gather_nd", .inputs = Names("head", "indices"), .in_mxnet = false};
  static constexpr void fields(auto field) { field("shape", &GatherNdGrad::shape, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const GatherNdGrad& op, KernelContext& c);
void run_cuda(const GatherNdGrad& op, KernelContext& c);

}  // namespace kaon
