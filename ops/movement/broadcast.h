// broadcast_to, broadcast_axis and broadcast_like: dimensions of 1 repeated.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// The array repeated to `shape`; 0 keeps a dimension, others must be 1 or equal. Missing leading axes count as 1.
struct BroadcastTo {
  Shape shape{};
  static constexpr OpTraits traits{.name = "broadcast_to", .recomputable = true};
  static constexpr void fields(auto field) { field("shape", &BroadcastTo::shape); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  FusedForms fused_forms(const RegisterKernels& k) const;
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const;
  bool keeps_rows(const RowQuery& q) const { return shape.ndim() == q.ndim() && shape[0] == 0; }
};
void run_cpu(const BroadcastTo& op, KernelContext& c);
void run_cuda(const BroadcastTo& op, KernelContext& c);

// Axis axis[i], which has size 1, repeated to size[i].
struct BroadcastAxis {
  Shape axis{};
  Shape size{};
  static constexpr OpTraits traits{.name = "broadcast_axis", .recomputable = true, .aliases = Names("broadcast_axes")};
  static constexpr void fields(auto field) {
    field("axis", &BroadcastAxis::axis);
    field("size", &BroadcastAxis::size);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  FusedForms fused_forms(const RegisterKernels& k) const;
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const;
  bool keeps_rows(const RowQuery& q) const { return !axis.empty() && !q.names_first(axis); }
};
void run_cpu(const BroadcastAxis& op, KernelContext& c);
void run_cuda(const BroadcastAxis& op, KernelContext& c);

// lhs repeated to the shape of rhs, or along lhs_axes to the sizes of rhs_axes.
struct BroadcastLike {
  std::optional<Shape> lhs_axes{};
  std::optional<Shape> rhs_axes{};
  static constexpr OpTraits traits{.name = "broadcast_like", .inputs = Names("lhs", "rhs"), .recomputable = true};
  static constexpr void fields(auto field) {
    field("lhs_axes", &BroadcastLike::lhs_axes);
    field("rhs_axes", &BroadcastLike::rhs_axes);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && q.ndim() == q.ndim(1) && !lhs_axes; }
};
void run_cpu(const BroadcastLike& op, KernelContext& c);
void run_cuda(const BroadcastLike& op, KernelContext& c);

// The gradient of broadcasting `shape` to x's shape: x summed over the axes that were repeated.
NDArray sum_to_shape(const NDArray& x, const Shape& shape);

}  // namespace kaon
