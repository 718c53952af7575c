// The copy between memory layouts that the layout pass inserts.
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

// The same logical (N, C, H, W) values in the layout of the output's view. Exists in plans only.
struct Reorder {
  static constexpr OpTraits traits{.name = "_reorder", .any_layout = true, .in_mxnet = false};
  static constexpr auto fields = std::tuple<>{};
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
};
void run_cpu(const Reorder& op, KernelContext& c);
void run_cuda(const Reorder& op, KernelContext& c);

}  // namespace kaon
