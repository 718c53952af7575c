#include "kaon/ops/functions.h"
#include "kaon/ops/nn/activation/activation.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

using namespace ops;

template <UnaryKind K>
constinit const OpDef op::StraightThrough<K>::def = make_op_def<op::StraightThrough<K>>();
template <UnaryKind K>
void op::StraightThrough<K>::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, g.head());
}
template <UnaryKind K>
FusedForms op::StraightThrough<K>::fused_forms(const RegisterKernels& k) const {
  return fused_unary(K, k);
}
template <UnaryKind K>
std::optional<CudaExpression> op::StraightThrough<K>::cuda_expression(const ExpressionArgs& a) const {
  return unary_expression(K, a);
}
template struct op::StraightThrough<UnaryKind::round>;
template struct op::StraightThrough<UnaryKind::sign>;

constinit const OpDef op::GradientMultiplier::def = make_op_def<op::GradientMultiplier>();
void op::GradientMultiplier::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, g.head() * scalar);
}
FusedForms op::GradientMultiplier::fused_forms(const RegisterKernels& k) const {
  return fused_unary(UnaryKind::identity, k);
}
std::optional<CudaExpression> op::GradientMultiplier::cuda_expression(const ExpressionArgs& a) const {
  return unary_expression(UnaryKind::identity, a);
}
void run_cpu(const op::GradientMultiplier&, KernelContext& c) { run_unary(UnaryKind::identity, c); }

constinit const OpDef op::UnitLoss::def = make_op_def<op::UnitLoss>();
void op::UnitLoss::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, nd.ones_like(g.input_like(0)));
}
FusedForms op::UnitLoss::fused_forms(const RegisterKernels& k) const { return fused_unary(UnaryKind::identity, k); }
std::optional<CudaExpression> op::UnitLoss::cuda_expression(const ExpressionArgs& a) const {
  return unary_expression(UnaryKind::identity, a);
}
void run_cpu(const op::UnitLoss&, KernelContext& c) { run_unary(UnaryKind::identity, c); }

}  // namespace kaon
