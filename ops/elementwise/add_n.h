// add_n: the sum of any number of arrays of one shape, added in their order.
#pragma once

#include "kaon/ops/operator/op_def.h"

namespace kaon {

// y = x0 + x1 + ... 16-bit floats are summed in float32.
struct AddN {
  int num_args = 0;
  static constexpr OpTraits traits{.name = "add_n",
                                   .variadic = true,
                                   .inplace = 0,
                                   .pointwise = true,
                                   .any_layout = true,
                                   .aliases = {"ElementWiseSum"}};
  static constexpr void fields(auto field) { field("num_args", &AddN::num_args, true); }
  static const OpDef def;
  int num_inputs() const { return num_args; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  FusedForms fused_forms(const RegisterKernels& k) const;
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const;
};
void run_cpu(const AddN& op, KernelContext& c);
void run_cuda(const AddN& op, KernelContext& c);

}  // namespace kaon
