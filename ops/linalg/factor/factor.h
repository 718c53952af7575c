// Factorisations of matrices, systems of equations, determinants; triangles and diagonals. The matrices are along the
// last two axes, and all other axes are a batch.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- Factorisations and systems of equations. float32 and float64. On the CPU, a matrix for which there is no result
// is a ValueError; on GPUs its result is NaN.

namespace op {
// The lower triangular L with a positive diagonal and L L^T = A, for a positive definite A whose lower triangle is
// read; without `lower` the upper triangular U with U^T U = A, from the upper one.
struct LinalgPotrf {
  bool lower = true;
  static constexpr OpTraits traits{.name = "_linalg_potrf", .inputs = Names("A"), .aliases = Names("linalg_potrf")};
  static constexpr void fields(auto field) { field("lower", &LinalgPotrf::lower); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// The inverse of L L^T for a lower triangular A = L, as potrf gives it; without `lower` of U^T U, A = U.
struct LinalgPotri {
  bool lower = true;
  static constexpr OpTraits traits{.name = "_linalg_potri", .inputs = Names("A"), .aliases = Names("linalg_potri")};
  static constexpr void fields(auto field) { field("lower", &LinalgPotri::lower); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// X with op(A) X = alpha B, or with rightside X op(A) = alpha B, where op transposes or not. Of A the lower triangle is
// read, or without `lower` the upper one; a 0 on its diagonal gives infinity and NaN.
struct LinalgTrsm {
  bool transpose = false;
  bool rightside = false;
  bool lower = true;
  double alpha = 1;
  static constexpr OpTraits traits{.name = "_linalg_trsm", .inputs = Names("A", "B"), .aliases = Names("linalg_trsm")};
  static constexpr void fields(auto field) {
    field("transpose", &LinalgTrsm::transpose);
    field("rightside", &LinalgTrsm::rightside);
    field("lower", &LinalgTrsm::lower);
    field("alpha", &LinalgTrsm::alpha);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && q.ndim() > 2; }
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// X with A X = B. B has A's leading axes, and X its shape: the columns of matrices, or without a last axis vectors.
struct LinalgSolve {
  static constexpr OpTraits traits{.name = "_npi_solve", .inputs = Names("A", "B")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// A^-1.
struct LinalgInverse {
  static constexpr OpTraits traits{.name = "_linalg_inverse", .inputs = Names("A"), .aliases = Names("linalg_inverse")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// The determinants: the shape of the batch, (1,) for one matrix. Where it is 0, so is the gradient.
struct LinalgDet {
  static constexpr OpTraits traits{.name = "_linalg_det", .inputs = Names("A"), .aliases = Names("linalg_det")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.ndim() > 2; }
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// Their sign, -1, 0 or 1, and the logarithm of their magnitude. The sign has no gradient.
struct LinalgSlogdet {
  static constexpr OpTraits traits{
      .name = "_linalg_slogdet", .inputs = Names("A"), .outputs = 2, .aliases = Names("linalg_slogdet")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.ndim() > 2; }
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// A = L Q for (m, n) with m <= n: Q (m, n) with orthonormal rows, and the lower triangular L (m, m).
struct LinalgGelqf {
  static constexpr OpTraits traits{
      .name = "_linalg_gelqf", .inputs = Names("A"), .outputs = 2, .aliases = Names("linalg_gelqf")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.ndim() > 2; }
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// A = U^T diag(L) U for a symmetric A, whose lower triangle is read: the eigenvectors, rows of U, whose element of
// largest magnitude is positive; and the eigenvalues L in ascending order. The gradient is that of a symmetric A; it
// takes equal eigenvalues for one, where U is not unique.
struct LinalgSyevd {
  static constexpr OpTraits traits{
      .name = "_linalg_syevd", .inputs = Names("A"), .outputs = 2, .aliases = Names("linalg_syevd")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.ndim() > 2; }
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// A = UT diag(L) V for (m, n), with k = min(m, n): UT (m, k) with orthonormal columns, the singular values L in
// descending order, and V (k, n) with orthonormal rows, whose element of largest magnitude is positive. The gradient
// takes equal singular values for one.
struct LinalgSvd {
  static constexpr OpTraits traits{.name = "_npi_svd", .inputs = Names("A"), .outputs = 3};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.ndim() > 2; }
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// Eigenvalues of square matrices and, in columns of length 1, their eigenvectors, of which the element of largest
// magnitude is positive; in LAPACK's order. ValueError where an eigenvalue is not real, as in MXNet. float32 and
// float64. Gradient: none. On the CPU only.
struct Eig {
  static constexpr OpTraits traits{.name = "_npi_eig", .inputs = Names("A"), .outputs = 2, .flat = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.ndim() > 2; }
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// --- Triangles and diagonals. Any dtype. `offset` counts from the diagonal, upwards where it is positive.

// The sum of the logarithms of the diagonal: the shape of the batch, (1,) for one matrix. Floating dtypes.
struct LinalgSumLogDiag {
  static constexpr OpTraits traits{
      .name = "_linalg_sumlogdiag", .inputs = Names("A"), .aliases = Names("linalg_sumlogdiag")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The diagonal of square matrices.
struct LinalgExtractDiag {
  int offset = 0;
  static constexpr OpTraits traits{
      .name = "_linalg_extractdiag", .inputs = Names("A"), .aliases = Names("linalg_extractdiag")};
  static constexpr void fields(auto field) { field("offset", &LinalgExtractDiag::offset); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Square matrices with A, along its last axis, as their diagonal, and zeros elsewhere.
struct LinalgMakeDiag {
  int offset = 0;
  static constexpr OpTraits traits{
      .name = "_linalg_makediag", .inputs = Names("A"), .aliases = Names("linalg_makediag")};
  static constexpr void fields(auto field) { field("offset", &LinalgMakeDiag::offset); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// A triangle of square matrices along the last axis: for a negative offset that below the diagonal `offset`, row by
// row; for a positive one that above it, column by column; for 0 as `lower` says. The diagonal is part of it.
struct LinalgExtractTrian {
  int offset = 0;
  bool lower = true;
  static constexpr OpTraits traits{.name = "_linalg_extracttrian",
                                   .inputs = Names("A"),
                                   .recomputable = true,
                                   .aliases = Names("linalg_extracttrian")};
  static constexpr void fields(auto field) {
    field("offset", &LinalgExtractTrian::offset);
    field("lower", &LinalgExtractTrian::lower);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.ndim() > 2; }
};

// The inverse: square matrices with that triangle, and zeros elsewhere.
struct LinalgMakeTrian {
  int offset = 0;
  bool lower = true;
  static constexpr OpTraits traits{
      .name = "_linalg_maketrian", .inputs = Names("A"), .recomputable = true, .aliases = Names("linalg_maketrian")};
  static constexpr void fields(auto field) {
    field("offset", &LinalgMakeTrian::offset);
    field("lower", &LinalgMakeTrian::lower);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.ndim() > 1; }
};

// The matrices with zeros above their diagonal, or without `lower` below it.
struct Triangle {
  bool lower = true;
  static constexpr OpTraits traits{.name = "_triangle", .recomputable = true, .in_mxnet = false};
  static constexpr void fields(auto field) { field("lower", &Triangle::lower); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.ndim() > 2; }
};
}  // namespace op
void run_cpu(const op::LinalgPotrf& op, KernelContext& c);
void run_cuda(const op::LinalgPotrf& op, KernelContext& c);
void run_cpu(const op::LinalgPotri& op, KernelContext& c);
void run_cuda(const op::LinalgPotri& op, KernelContext& c);
void run_cpu(const op::LinalgTrsm& op, KernelContext& c);
void run_cuda(const op::LinalgTrsm& op, KernelContext& c);
void run_cpu(const op::LinalgSolve& op, KernelContext& c);
void run_cuda(const op::LinalgSolve& op, KernelContext& c);
void run_cpu(const op::LinalgInverse& op, KernelContext& c);
void run_cuda(const op::LinalgInverse& op, KernelContext& c);
void run_cpu(const op::LinalgDet& op, KernelContext& c);
void run_cuda(const op::LinalgDet& op, KernelContext& c);
void run_cpu(const op::LinalgSlogdet& op, KernelContext& c);
void run_cuda(const op::LinalgSlogdet& op, KernelContext& c);
void run_cpu(const op::LinalgGelqf& op, KernelContext& c);
void run_cuda(const op::LinalgGelqf& op, KernelContext& c);
void run_cpu(const op::LinalgSyevd& op, KernelContext& c);
void run_cuda(const op::LinalgSyevd& op, KernelContext& c);
void run_cpu(const op::LinalgSvd& op, KernelContext& c);
void run_cuda(const op::LinalgSvd& op, KernelContext& c);
void run_cpu(const op::Eig& op, KernelContext& c);
void run_cpu(const op::LinalgExtractTrian& op, KernelContext& c);
void run_cuda(const op::LinalgExtractTrian& op, KernelContext& c);
void run_cpu(const op::LinalgMakeTrian& op, KernelContext& c);
void run_cuda(const op::LinalgMakeTrian& op, KernelContext& c);
void run_cpu(const op::Triangle& op, KernelContext& c);
void run_cuda(const op::Triangle& op, KernelContext& c);

}  // namespace kaon
