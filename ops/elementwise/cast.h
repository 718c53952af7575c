// Cast: the same values in another dtype.
#pragma once

#include "kaon/ops/operator/op_def.h"

namespace kaon {

// Reals become integers by truncation toward zero (NaN gives 0, values out of range wrap as integers do), numbers
// become bool by != 0, and 16-bit floats round to nearest even. TypeError for an unknown dtype.
struct Cast {
  DType dtype = DType::float32;
  static constexpr OpTraits traits{
      .name = "Cast", .pointwise = true, .any_layout = true, .aliases = {"cast", "amp_cast"}};
  static constexpr void fields(auto field) { field("dtype", &Cast::dtype, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  FusedForms fused_forms(const RegisterKernels& k) const;
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const;
};
void run_cpu(const Cast& op, KernelContext& c);
void run_cuda(const Cast& op, KernelContext& c);

}  // namespace kaon
