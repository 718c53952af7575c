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

// --- khatri_rao: products of columns.

namespace op {
// Matrices (n_i, c) to (n_0 n_1 ..., c): each column is the Kronecker product of the inputs' columns. Floating dtypes.
struct KhatriRao {
  int num_args = 0;  // number of matrices; set by the call
  static constexpr OpTraits traits{.name = "khatri_rao", .inputs = Names("args"), .variadic = true};
  static constexpr void fields(auto field) { field("num_args", &KhatriRao::num_args, true); }
  static const OpDef def;
  int num_inputs() const { return num_args > 0 ? num_args : -1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

}  // namespace kaon
