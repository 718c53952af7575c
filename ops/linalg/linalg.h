// Products of matrices: dot and batch_dot.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

namespace op {
// Contracts the last axis of lhs (the first when transpose_a) with the first axis of rhs (the last when transpose_b);
// the other axes of lhs, then those of rhs, are the result's. Two vectors give shape (1,). Floating dtypes; 16-bit
// floats accumulate in float32.
struct Dot {
  bool transpose_a = false;
  bool transpose_b = false;
  static constexpr OpTraits traits{.name = "dot", .inputs = Names("lhs", "rhs")};
  static constexpr void fields(auto field) {
    field("transpose_a", &Dot::transpose_a);
    field("transpose_b", &Dot::transpose_b);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2 && !transpose_a; }
};

// y[i] = op(lhs[i]) op(rhs[i]) for arrays of shape (batch, rows, columns).
struct BatchDot {
  bool transpose_a = false;
  bool transpose_b = false;
  static constexpr OpTraits traits{.name = "batch_dot", .inputs = Names("lhs", "rhs")};
  static constexpr void fields(auto field) {
    field("transpose_a", &BatchDot::transpose_a);
    field("transpose_b", &BatchDot::transpose_b);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};
}  // namespace op
void run_cpu(const op::Dot& op, KernelContext& c);
void run_cuda(const op::Dot& op, KernelContext& c);
void run_cpu(const op::BatchDot& op, KernelContext& c);
void run_cuda(const op::BatchDot& op, KernelContext& c);

}  // namespace kaon
