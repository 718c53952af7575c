// Functions of an array and a number, element by element: x + s, s - x, x > s ... and smooth_l1, in the array's dtype;
// comparisons give 0 and 1 in it. With 16-bit floats the number is a float32 and the result is rounded once: 1e5 does
// not become infinity before it is used. Integer arrays take whole numbers only; comparisons take any, and are exact.
// MXNet rounds the number to the array's dtype first (docs/differences.md).
#pragma once

#include "kaon/ops/operator/op_def.h"
#include "kaon/ops/scalar_kind.h"

namespace kaon {

void infer_scalar(ScalarKind kind, double scalar, InferContext& c);
void grad_scalar(ScalarKind kind, double scalar, GradContext& g);
FusedForms fused_scalar(ScalarKind kind, double scalar, const RegisterKernels& k);
std::string scalar_expression(ScalarKind kind, double scalar, const ExpressionArgs& a);
void run_scalar(ScalarKind kind, const void* op, KernelContext& c);
void run_scalar_cuda(ScalarKind kind, double scalar, KernelContext& c);

constexpr OpTraits scalar_traits(ScalarKind kind) {
  OpTraits t{.name = info(kind).name, .inplace = 0, .pointwise = true, .any_layout = true};
  t.flat = is_logical(info(kind).kind);
  if (!info(kind).alias.empty()) t.aliases = Names(info(kind).alias);
  return t;
}

// `is_int`: whether the number was written as an integer. It is kept in files and has no effect.
template <ScalarKind K>
struct Scalar {
  double scalar = 1;
  bool is_int = true;
  static constexpr OpTraits traits = scalar_traits(K);
  static constexpr void fields(auto field) {
    field("scalar", &Scalar::scalar);
    field("is_int", &Scalar::is_int);
  }
  static const OpDef def;
  void infer(InferContext& c) const { infer_scalar(K, scalar, c); }
  void grad(GradContext& g) const requires(!is_logical(info(K).kind)) { grad_scalar(K, scalar, g); }
  FusedForms fused_forms(const RegisterKernels& k) const { return fused_scalar(K, scalar, k); }
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const {
    return scalar_expression(K, scalar, a);
  }
};

// 0.5 (s x)^2 where |x| < 1 / s^2, else |x| - 0.5 / s^2.
template <>
struct Scalar<ScalarKind::smooth_l1> {
  double scalar = 1;
  static constexpr OpTraits traits = scalar_traits(ScalarKind::smooth_l1);
  static constexpr void fields(auto field) { field("scalar", &Scalar::scalar); }
  static const OpDef def;
  void infer(InferContext& c) const { infer_scalar(ScalarKind::smooth_l1, scalar, c); }
  void grad(GradContext& g) const { grad_scalar(ScalarKind::smooth_l1, scalar, g); }
  FusedForms fused_forms(const RegisterKernels& k) const { return fused_scalar(ScalarKind::smooth_l1, scalar, k); }
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const {
    return scalar_expression(ScalarKind::smooth_l1, scalar, a);
  }
};

template <ScalarKind K>
void run_cpu(const Scalar<K>& op, KernelContext& c) {
  run_scalar(K, &op, c);
}
template <ScalarKind K>
void run_cuda(const Scalar<K>& op, KernelContext& c) {
  run_scalar_cuda(K, op.scalar, c);
}
template <ScalarKind K>
constinit const OpDef Scalar<K>::def = make_op_def<Scalar<K>>();
inline constinit const OpDef Scalar<ScalarKind::smooth_l1>::def = make_op_def<Scalar<ScalarKind::smooth_l1>>();

using PlusScalar = Scalar<ScalarKind::plus>;
using MinusScalar = Scalar<ScalarKind::minus>;
using RMinusScalar = Scalar<ScalarKind::rminus>;
using MulScalar = Scalar<ScalarKind::mul>;
using DivScalar = Scalar<ScalarKind::div>;
using RDivScalar = Scalar<ScalarKind::rdiv>;
using ModScalar = Scalar<ScalarKind::mod>;
using RModScalar = Scalar<ScalarKind::rmod>;
using PowerScalar = Scalar<ScalarKind::power>;
using RPowerScalar = Scalar<ScalarKind::rpower>;
using MaximumScalar = Scalar<ScalarKind::maximum>;
using MinimumScalar = Scalar<ScalarKind::minimum>;
using HypotScalar = Scalar<ScalarKind::hypot>;
using EqualScalar = Scalar<ScalarKind::equal>;
using NotEqualScalar = Scalar<ScalarKind::not_equal>;
using GreaterScalar = Scalar<ScalarKind::greater>;
using GreaterEqualScalar = Scalar<ScalarKind::greater_equal>;
using LesserScalar = Scalar<ScalarKind::lesser>;
using LesserEqualScalar = Scalar<ScalarKind::lesser_equal>;
using LogicalAndScalar = Scalar<ScalarKind::logical_and>;
using LogicalOrScalar = Scalar<ScalarKind::logical_or>;
using LogicalXorScalar = Scalar<ScalarKind::logical_xor>;
using SmoothL1 = Scalar<ScalarKind::smooth_l1>;

}  // namespace kaon
