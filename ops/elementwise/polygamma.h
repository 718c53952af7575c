// polygamma: the derivatives of the digamma function.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// The n-th derivative of digamma, psi_n(x) = (-1)^(n+1) n! sum_k (x + k)^-(n+1); n = 1 is the trigamma function. At 0
// and the negative integers +infinity for odd n, NaN for even n. Floating dtypes; 1 <= n <= 100. Gradient: psi_(n+1).
struct Polygamma {
  int n = 1;
  static constexpr OpTraits traits{
      .name = "polygamma", .inplace = 0, .pointwise = true, .any_layout = true, .in_mxnet = false};
  static constexpr void fields(auto field) { field("n", &Polygamma::n); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  FusedForms fused_forms(const RegisterKernels& k) const;
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const;
};
void run_cpu(const Polygamma& op, KernelContext& c);
void run_cuda(const Polygamma& op, KernelContext& c);

}  // namespace kaon
