// _kaon_all_finite: are gradients free of inf and NaN?
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

// 1 when every element of every input is finite, else 0; float32 (1,). For loss scaling.
struct AllFinite {
  static constexpr OpTraits traits{.name = "_kaon_all_finite", .variadic = true, .in_mxnet = false, .flat = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
};
void run_cpu(const AllFinite& op, KernelContext& c);
void run_cuda(const AllFinite& op, KernelContext& c);

}  // namespace kaon
