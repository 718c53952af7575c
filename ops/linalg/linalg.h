// Products of matrices and of arrays of any number of axes.
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

// --- BLAS's products of matrices, along the last two axes of arrays whose leading axes are equal. Floating dtypes.

// alpha op(A) op(B) + beta C, where op transposes or not. `axis` counts rows: the matrices are along it and the last
// axis, and it is no batch axis then. beta 0 leaves C out.
struct LinalgGemm {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 1;
  int axis = -2;
  static constexpr OpTraits traits{
      .name = "_linalg_gemm", .inputs = Names("A", "B", "C"), .aliases = Names("linalg_gemm")};
  static constexpr void fields(auto field) {
    field("transpose_a", &LinalgGemm::transpose_a);
    field("transpose_b", &LinalgGemm::transpose_b);
    field("alpha", &LinalgGemm::alpha);
    field("beta", &LinalgGemm::beta);
    field("axis", &LinalgGemm::axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// alpha op(A) op(B).
struct LinalgGemm2 {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  int axis = -2;
  static constexpr OpTraits traits{
      .name = "_linalg_gemm2", .inputs = Names("A", "B"), .aliases = Names("linalg_gemm2")};
  static constexpr void fields(auto field) {
    field("transpose_a", &LinalgGemm2::transpose_a);
    field("transpose_b", &LinalgGemm2::transpose_b);
    field("alpha", &LinalgGemm2::alpha);
    field("axis", &LinalgGemm2::axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// alpha A A^T, or with transpose alpha A^T A.
struct LinalgSyrk {
  bool transpose = false;
  double alpha = 1;
  static constexpr OpTraits traits{.name = "_linalg_syrk", .inputs = Names("A"), .aliases = Names("linalg_syrk")};
  static constexpr void fields(auto field) {
    field("transpose", &LinalgSyrk::transpose);
    field("alpha", &LinalgSyrk::alpha);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// alpha op(A) B, or with rightside alpha B op(A). Of A the lower triangle is read, or without `lower` the upper one.
struct LinalgTrmm {
  bool transpose = false;
  bool rightside = false;
  bool lower = true;
  double alpha = 1;
  static constexpr OpTraits traits{.name = "_linalg_trmm", .inputs = Names("A", "B"), .aliases = Names("linalg_trmm")};
  static constexpr void fields(auto field) {
    field("transpose", &LinalgTrmm::transpose);
    field("rightside", &LinalgTrmm::rightside);
    field("lower", &LinalgTrmm::lower);
    field("alpha", &LinalgTrmm::alpha);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// --- NumPy's products. Any dtype but bool. A result without axes has shape (1,).

// Products of the matrices along the last two axes; the leading axes broadcast. A vector is a row on the left, a column
// on the right, and that axis is no axis of the result.
struct Matmul {
  static constexpr OpTraits traits{.name = "_npi_matmul", .inputs = Names("a", "b")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The sum of products over axis a_axes_summed[i] of a and b_axes_summed[i] of b, for all i at once; the other axes of
// a, then those of b, are the result's.
struct Tensordot {
  Shape a_axes_summed{};
  Shape b_axes_summed{};
  static constexpr OpTraits traits{.name = "_npi_tensordot", .inputs = Names("a", "b")};
  static constexpr void fields(auto field) {
    field("a_axes_summed", &Tensordot::a_axes_summed, true);
    field("b_axes_summed", &Tensordot::b_axes_summed, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The same over the last `axes` axes of a and the first of b.
struct TensordotIntAxes {
  int axes = 2;
  static constexpr OpTraits traits{.name = "_npi_tensordot_int_axes", .inputs = Names("a", "b")};
  static constexpr void fields(auto field) { field("axes", &TensordotIntAxes::axes, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Products of each element of a with each of b: (size of a, size of b).
struct Outer {
  static constexpr OpTraits traits{.name = "outer", .inputs = Names("a", "b"), .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Kronecker's product: each element of a times all of b, in blocks along each axis. Axes are matched from the right.
struct Kron {
  static constexpr OpTraits traits{.name = "kron", .inputs = Names("a", "b"), .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Einstein's sums: subscripts "ij,jk->ik" name the axes of each array and of the result by letters; products are summed
// over the letters that the result lacks. A letter twice in one array is its diagonal; "..." are leading axes that
// broadcast, as do axes of size 1. Without "->" the result has the letters that occur once, in alphabetical order.
// Arrays are contracted two at a time, those with the smallest product first.
struct Einsum {
  int num_args = 0;  // number of arrays; set by the call
  Word subscripts{};
  int optimize = 0;  // read from files; the order of contractions is chosen anyway
  static constexpr OpTraits traits{.name = "_npi_einsum", .inputs = Names("data"), .variadic = true};
  static constexpr void fields(auto field) {
    field("num_args", &Einsum::num_args, true);
    field("subscripts", &Einsum::subscripts);
    field("optimize", &Einsum::optimize);
  }
  static const OpDef def;
  int num_inputs() const { return num_args > 0 ? num_args : -1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

}  // namespace kaon
