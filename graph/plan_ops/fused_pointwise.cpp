#include "kaon/graph/plan_ops/fused_pointwise.h"

#include "kaon/ops/op_def.h"

namespace kaon {

using namespace graph;
namespace {

consteval OpDef make_def() {
  OpDef def = make_op_def<op::FusedPointwise>();
  def.equal = [](const void* a, const void* b) {
    return *static_cast<const op::FusedPointwise*>(a) == *static_cast<const op::FusedPointwise*>(b);
  };
  return def;
}

}  // namespace

constinit const OpDef op::FusedPointwise::def = make_def();

void op::FusedPointwise::infer(InferContext& c) const {
  for (int i = 0; i < num_outputs(); ++i) {
    c.set_output(i, i < program.num_outputs ? shape : reduced[i - program.num_outputs], DType::float32);
  }
}

void run_cpu(const op::FusedPointwise& op, KernelContext& c) {
  const float* in[VectorProgram::max_inputs];
  float* out[VectorProgram::max_outputs + VectorProgram::max_reduced];
  for (int k = 0; k < op.num_inputs(); ++k) in[k] = c.in(k).as<const float>();
  for (int k = 0; k < op.num_outputs(); ++k) out[k] = c.out(k).as<float>();
  run_vector_program(op.program, in, out, op.shape.size(), c.run);
}

}  // namespace kaon
