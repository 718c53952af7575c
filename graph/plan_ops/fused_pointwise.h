// The operator that replaces a group of pointwise operators on the CPU.
#pragma once

#include "kaon/ops/fused/vector_program.h"
#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

namespace op {
// Computes a vector program: inputs in its order, outputs of one shape, then values that were reduced. Exists in plans
// only.
struct FusedPointwise {
  Shape shape;
  Shape reduced[ops::VectorProgram::max_reduced];
  ops::VectorProgram program;
  bool takes_over = false;  // output 0 may take the memory of input 0, which no step reads after it
  static constexpr OpTraits traits{.name = "_fused_pointwise", .any_layout = true, .in_mxnet = false};
  static constexpr OpTraits in_place_traits{
      .name = "_fused_pointwise", .inplace = 0, .any_layout = true, .in_mxnet = false};
  static constexpr void fields(auto) {}  // never in files
  static const OpDef def;
  int num_inputs() const { return program.num_inputs(); }
  int num_outputs() const { return program.num_outputs + program.num_reduced; }
  const OpTraits& traits_of() const { return takes_over ? in_place_traits : traits; }
  void infer(InferContext& c) const;
  friend bool operator==(const FusedPointwise&, const FusedPointwise&) = default;
};
}  // namespace op
void run_cpu(const op::FusedPointwise& op, KernelContext& c);

}  // namespace kaon
