// _sum_to: sums an array down to a shape that broadcasts to its own: the gradient of broadcasting.
#pragma once

#include "kaon/ops/operator/op_def.h"

namespace kaon {

// y = x summed over the axes that `shape` lacks on the left, and over those where it has 1. Sums are taken in double
// (integers: in int64) in an order fixed by the shapes. In `shape`, -1 keeps the input's dimension.
struct SumTo {
  Shape shape{};
  static constexpr OpTraits traits{.name = "_sum_to", .recomputable = true, .in_mxnet = false};
  static constexpr void fields(auto field) { field("shape", &SumTo::shape, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const SumTo& op, KernelContext& c);
void run_cuda(const SumTo& op, KernelContext& c);

}  // namespace kaon
