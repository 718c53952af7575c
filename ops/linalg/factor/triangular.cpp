// Cholesky's factor, the inverse from it, and triangular systems.
#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/linalg/factor/factor.h"
#include "kaon/ops/linalg/factor/kernels/matrices.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::LinalgPotrf::def = make_op_def<op::LinalgPotrf>();
constinit const OpDef op::LinalgPotri::def = make_op_def<op::LinalgPotri>();
constinit const OpDef op::LinalgTrsm::def = make_op_def<op::LinalgTrsm>();

namespace {

double cube(double n) { return n * n * n; }
double flops_of(const op::LinalgPotrf&, const Matrices& a) { return cube(double(a.rows)) / 3; }
double flops_of(const op::LinalgPotri&, const Matrices& a) { return cube(double(a.rows)) * 2 / 3; }
double flops_of(const op::LinalgTrsm& op, const Matrices& b) {
  return double(b.size()) * double(op.rightside ? b.columns : b.rows);
}

// The lower triangle of row-major matrices is the upper one of column-major ones.
template <class T>
void clear_above(T* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + (i + 1) * n, T(0));
}
// The lower triangle of a matrix, or of its transpose.
template <class T>
void copy_lower(const T* from, bool of_itself, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (of_itself) {
      std::copy_n(from + i * n, i + 1, to + i * n);
    } else {
      for (int64_t j = 0; j <= i; ++j) to[i * n + j] = from[j * n + i];
    }
  }
}
template <class T>
void mirror_lower(T* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) a[j * n + i] = a[i * n + j];
  }
}

}  // namespace

double op::LinalgPotrf::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  const Matrices a(inputs[0].shape);
  return double(a.batch) * flops_of(*this, a);
}

void op::LinalgPotrf::infer(InferContext& c) const {
  expect_square(c);
  expect_factorable(c);
  c.set_output(c.shape(0), c.dtype());
}

// dA = 1/2 L^-T (the lower triangle of L^T dL, mirrored) L^-1, which is symmetric.
void op::LinalgPotrf::grad(GradContext& g) const {
  const NDArray l = lower ? g.output() : transposed(g.output()), head = lower ? g.head() : transposed(g.head());
  const NDArray middle = mirrored(nd.linalg_gemm2(l, head, {.transpose_a = true, .alpha = 0.5}));
  g.set(0, nd.linalg_trsm(l, nd.linalg_trsm(l, middle, {.rightside = true}), {.transpose = true}));
}

void run_cpu(const op::LinalgPotrf& op, KernelContext& c) {
  in_float_or_double(c.out().dtype, [&]<class T>() {
    const Matrices m(c.out().shape);
    each_matrix(c.run, m.batch, flops_of(op, m), [&](const Columns& columns, int64_t i) {
      T* const l = c.out().as<T>() + i * m.size();
      copy_lower(c.in(0).as<const T>() + i * m.size(), op.lower, l, m.rows);
      if (const int64_t minor = cholesky(columns, l, m.rows)) {
        fail_matrix(op::LinalgPotrf::def, i,
                    fmt::format("is not positive definite: its leading minor of order {} is not positive", minor));
      }
      clear_above(l, m.rows);
      for (int64_t j = 0; j < m.rows && !op.lower; ++j) {
        for (int64_t k = 0; k < j; ++k) std::swap(l[j * m.rows + k], l[k * m.rows + j]);
      }
    });
  });
}

double op::LinalgPotri::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  const Matrices a(inputs[0].shape);
  return double(a.batch) * flops_of(*this, a);
}

void op::LinalgPotri::infer(InferContext& c) const {
  expect_square(c);
  expect_factorable(c);
  c.set_output(c.shape(0), c.dtype());
}

// dL = -(the lower triangle of B (dB + dB^T) L^-T), B the output.
void op::LinalgPotri::grad(GradContext& g) const {
  const NDArray& head = g.head();
  const NDArray l = lower ? g.input(0) : transposed(g.input(0));
  const NDArray sides = nd.linalg_gemm2(g.output(), head + transposed(head), {.alpha = -1});
  const NDArray found = nd._triangle(nd.linalg_trsm(l, sides, {.transpose = true, .rightside = true}));
  g.set(0, lower ? found : transposed(found));
}

void run_cpu(const op::LinalgPotri& op, KernelContext& c) {
  in_float_or_double(c.out().dtype, [&]<class T>() {
    const Matrices m(c.out().shape);
    each_matrix(c.run, m.batch, flops_of(op, m), [&](const Columns&, int64_t i) {
      if (m.rows == 0) return;
      T* const b = c.out().as<T>() + i * m.size();
      copy_lower(c.in(0).as<const T>() + i * m.size(), op.lower, b, m.rows);
      const int n = int(m.rows);
      int info = 0;
      Lapack<T>::get().potri("U", &n, b, &n, &info, 1);
      if (info != 0) fail_matrix(op::LinalgPotri::def, i, fmt::format("has a 0 at place {} of its diagonal", info));
      mirror_lower(b, m.rows);
    });
  });
}

double op::LinalgTrsm::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  const Matrices b(inputs[1].shape);
  return double(b.batch) * flops_of(*this, b);
}

void op::LinalgTrsm::infer(InferContext& c) const {
  expect_square(c);
  expect_matrices(c, 1);
  expect_factorable(c);
  const Shape &a = c.shape(0), &b = c.shape(1);
  const Matrices left(a), right(b);
  if (of_batch(a, {}) != of_batch(b, {}) || left.rows != (rightside ? right.columns : right.rows)) {
    c.fail(fmt::format("the leading axes, and the {} of B and the size of A, must be equal, got {}",
                       rightside ? "columns" : "rows", c.describe_inputs()));
  }
  c.set_output(b, c.dtype());
}

// With S = the solution for the head: dB = alpha S, and dA = -(S X^T) or its like, of which A's triangle counts.
void op::LinalgTrsm::grad(GradContext& g) const {
  const NDArray s =
      nd.linalg_trsm(g.input(0), g.head(), {.transpose = !transpose, .rightside = rightside, .lower = lower});
  if (g.wants(1)) g.set(1, alpha == 1 ? s : s * alpha);
  if (!g.wants(0)) return;
  const NDArray& x = g.output();
  const bool is_first = transpose == rightside;  // S, before X
  g.set(0, nd._triangle(nd.linalg_gemm2(is_first ? s : x, is_first ? x : s,
                                        {.transpose_a = rightside, .transpose_b = !rightside, .alpha = -1}),
                        {.lower = lower}));
}

void run_cpu(const op::LinalgTrsm& op, KernelContext& c) {
  in_float_or_double(c.out().dtype, [&]<class T>() {
    const Matrices a(c.in(0).shape), b(c.out().shape);
    each_matrix(c.run, b.batch, flops_of(op, b), [&](const Columns& columns, int64_t i) {
      const T* const from = c.in(1).as<const T>() + i * b.size();
      T* const x = c.out().as<T>() + i * b.size();
      const T alpha = T(op.alpha);
      std::transform(from, from + b.size(), x, [&](T v) { return alpha * v; });
      solve_triangle(columns, c.in(0).as<const T>() + i * a.size(), a.rows, op.lower, op.transpose, !op.rightside, x,
                     op.rightside ? b.rows : b.columns);
    });
  });
}

}  // namespace kaon
