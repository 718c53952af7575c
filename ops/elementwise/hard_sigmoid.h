// hard_sigmoid: the piecewise linear sigmoid.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// min(max(alpha x + beta, 0), 1), the defaults as in MXNet; NaN stays. Floating dtypes.
struct HardSigmoid {
  double alpha = 0.2;
  double beta = 0.5;
  static constexpr OpTraits traits{.name = "hard_sigmoid", .inplace = 0, .pointwise = true, .any_layout = true};
  static constexpr void fields(auto field) {
    field("alpha", &HardSigmoid::alpha);
    field("beta", &HardSigmoid::beta);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  FusedForms fused_forms(const RegisterKernels& k) const;
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const;
};
void run_cpu(const HardSigmoid& op, KernelContext& c);
void run_cuda(const HardSigmoid& op, KernelContext& c);

}  // namespace kaon
