// transpose and SwapAxis.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// Axis i of the result is axis axes[i] of the array; no axes: all reversed.
struct Transpose {
  Shape axes{};
  static constexpr OpTraits traits{.name = "transpose", .recomputable = true};
  static constexpr void fields(auto field) { field("axes", &Transpose::axes); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return !axes.empty() && q.is_first(axes[0]); }
};
void run_cpu(const Transpose& op, KernelContext& c);
void run_cuda(const Transpose& op, KernelContext& c);

// The array with two axes exchanged.
struct SwapAxis {
  int dim1 = 0;
  int dim2 = 0;
  static constexpr OpTraits traits{.name = "SwapAxis", .recomputable = true, .aliases = Names("swapaxes")};
  static constexpr void fields(auto field) {
    field("dim1", &SwapAxis::dim1);
    field("dim2", &SwapAxis::dim2);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return !q.is_first(dim1) && !q.is_first(dim2); }
};
void run_cpu(const SwapAxis& op, KernelContext& c);
void run_cuda(const SwapAxis& op, KernelContext& c);

}  // namespace kaon
