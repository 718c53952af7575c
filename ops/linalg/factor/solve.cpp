// Systems of equations, inverses and determinants, by L U factors.
#include <fmt/format.h>

#include <cmath>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/linalg/factor/factor.h"
#include "kaon/ops/linalg/factor/kernels/matrices.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::LinalgSolve::def = make_op_def<op::LinalgSolve>();
constinit const OpDef op::LinalgInverse::def = make_op_def<op::LinalgInverse>();
constinit const OpDef op::LinalgDet::def = make_op_def<op::LinalgDet>();
constinit const OpDef op::LinalgSlogdet::def = make_op_def<op::LinalgSlogdet>();

namespace {

double lu_flops(const Matrices& a) { return double(a.size()) * double(a.rows) * 2 / 3; }
double solve_flops(const Matrices& a, int64_t columns) { return lu_flops(a) + 2 * double(a.size()) * double(columns); }

// Whether B has a vector for each matrix of A.
bool are_vectors(const Shape& a, const Shape& b) { return b.ndim() == a.ndim() - 1; }
int64_t columns_of(const Shape& a, const Shape& b) { return are_vectors(a, b) ? 1 : b.back(); }

// A copy of matrix i of input 0 and its factors, in scratch memory.
template <class T>
struct Factors {
  Factors(const KernelContext& c, const Columns& columns, const Matrices& m, int64_t i)
      : memory(line_aligned(size_t(m.size()) * sizeof(T)) + size_t(m.rows) * sizeof(int)),
        a(memory.as<T>()),
        pivots(reinterpret_cast<int*>(memory.data() + line_aligned(size_t(m.size()) * sizeof(T)))) {
    std::copy_n(c.in(0).as<const T>() + i * m.size(), m.size(), a);
    zero = lu(columns, a, m.rows, pivots);
  }
  void expect_regular(const OpDef& op, int64_t i) const {
    if (zero != 0)
      fail_matrix(op, i, fmt::format("is singular: the factor U has a 0 at place {} of its diagonal", zero));
  }
  Scratch memory;
  T* a;
  int* pivots;
  int64_t zero;
};

// x is B, and becomes the solution.
template <class T>
void solve_each(const OpDef& op, KernelContext& c, const Matrices& m, int64_t columns, bool identity) {
  const int64_t size = m.rows * columns;
  each_matrix(c.run, m.batch, solve_flops(m, columns), [&](const Columns& pieces, int64_t i) {
    const Factors<T> factors(c, pieces, m, i);
    factors.expect_regular(op, i);
    T* const x = c.out().as<T>() + i * size;
    if (identity) {
      std::fill_n(x, size, T(0));
      for (int64_t k = 0; k < m.rows; ++k) x[k * (columns + 1)] = 1;
    } else {
      std::copy_n(c.in(1).as<const T>() + i * size, size, x);
    }
    solve_by_lu(pieces, factors.a, factors.pivots, m.rows, x, columns);
  });
}

// The sign and the logarithm of the magnitude of a product, and the product itself.
struct Determinant {
  double value = 1, sign = 1, log = 0;
};
template <class T>
Determinant determinant(const T* lu, const int* pivots, int64_t n) {
  Determinant d;
  for (int64_t k = 0; k < n; ++k) {
    const double factor = double(lu[k * (n + 1)]) * (pivots[k] == k + 1 ? 1 : -1);
    d.value *= factor;
    d.sign = factor > 0 ? d.sign : factor < 0 ? -d.sign : factor;  // 0 and NaN
    d.log += std::log(std::fabs(factor));
  }
  return d;
}

template <class T, class Store>
void determinants(KernelContext& c, Store&& store) {
  const Matrices m(c.in(0).shape);
  each_matrix(c.run, m.batch, lu_flops(m), [&](const Columns& columns, int64_t i) {
    const Factors<T> factors(c, columns, m, i);
    store(i, determinant(factors.a, factors.pivots, m.rows));
  });
}

// The transposed inverses, and the identity's for singular matrices, where `determinant` is 0.
NDArray inverse_or_identity(const NDArray& a, const NDArray& determinant) {
  const Matrices m(a.shape());
  const NDArray identity = nd.linalg_makediag(nd.ones_like(nd.linalg_extractdiag(a)));
  const Shape rows(m.batch, m.size());
  const NDArray regular = nd.where(nd._reshape_to(determinant, {.shape = Shape(m.batch)}),
                                   nd._reshape_to(a, {.shape = rows}), nd._reshape_to(identity, {.shape = rows}));
  return transposed(nd.linalg_inverse(nd._reshape_to(regular, {.shape = a.shape()})));
}

}  // namespace

double op::LinalgSolve::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  const Matrices a(inputs[0].shape);
  return double(a.batch) * solve_flops(a, columns_of(inputs[0].shape, inputs[1].shape));
}

void op::LinalgSolve::infer(InferContext& c) const {
  expect_square(c);
  expect_factorable(c);
  const Shape &a = c.shape(0), &b = c.shape(1);
  const bool vectors = are_vectors(a, b);
  Shape expected = of_batch(a, {a.back()});
  if (!vectors && b.ndim() > 0) expected.push_back(b.back());
  if ((!vectors && b.ndim() != a.ndim()) || b != expected) {
    c.fail(fmt::format("B must be {} or {} with any number of columns, got {}", of_batch(a, {a.back()}).str(),
                       of_batch(a, {a.back(), -1}).str(), c.describe_inputs()));
  }
  c.set_output(b, c.dtype());
}

// dB = A^-T dX, dA = -dB X^T.
void op::LinalgSolve::grad(GradContext& g) const {
  const NDArray& a = g.input(0);
  const NDArray db = nd.linalg_solve(transposed(a), g.head());
  if (g.wants(0)) {
    const bool vectors = are_vectors(a.shape(), db.shape());
    g.set(0, nd.linalg_gemm2(vectors ? as_columns(db) : db, vectors ? as_columns(g.output()) : g.output(),
                             {.transpose_b = true, .alpha = -1}));
  }
  g.set(1, db);
}

void run_cpu(const op::LinalgSolve&, KernelContext& c) {
  in_float_or_double(c.out().dtype, [&]<class T>() {
    const Shape& a = c.in(0).shape;
    solve_each<T>(op::LinalgSolve::def, c, Matrices(a), columns_of(a, c.in(1).shape), false);
  });
}

double op::LinalgInverse::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  const Matrices a(inputs[0].shape);
  return double(a.batch) * solve_flops(a, a.rows);
}

void op::LinalgInverse::infer(InferContext& c) const {
  expect_square(c);
  expect_factorable(c);
  c.set_output(c.shape(0), c.dtype());
}

// dA = -B^T dB B^T, B the output.
void op::LinalgInverse::grad(GradContext& g) const {
  const NDArray& b = g.output();
  g.set(0, nd.linalg_gemm2(b, nd.linalg_gemm2(g.head(), b, {.transpose_b = true}), {.transpose_a = true, .alpha = -1}));
}

void run_cpu(const op::LinalgInverse&, KernelContext& c) {
  in_float_or_double(c.out().dtype, [&]<class T>() {
    const Matrices m(c.out().shape);
    solve_each<T>(op::LinalgInverse::def, c, m, m.rows, true);
  });
}

double op::LinalgDet::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  const Matrices a(inputs[0].shape);
  return double(a.batch) * lu_flops(a);
}

void op::LinalgDet::infer(InferContext& c) const {
  expect_square(c);
  expect_factorable(c);
  c.set_output(batch_shape(c.shape(0)), c.dtype());
}

// dA = det(A) A^-T times the head.
void op::LinalgDet::grad(GradContext& g) const {
  const NDArray& a = g.input(0);
  const NDArray scale = as_numbers(g.head() * g.output(), a.shape());
  g.set(0, nd.broadcast_mul(inverse_or_identity(a, g.output()), scale));
}

void run_cpu(const op::LinalgDet&, KernelContext& c) {
  in_float_or_double(c.out().dtype, [&]<class T>() {
    determinants<T>(c, [&](int64_t i, const Determinant& d) { c.out().as<T>()[i] = T(d.value); });
  });
}

double op::LinalgSlogdet::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  const Matrices a(inputs[0].shape);
  return double(a.batch) * lu_flops(a);
}

void op::LinalgSlogdet::infer(InferContext& c) const {
  expect_square(c);
  expect_factorable(c);
  for (int i = 0; i < 2; ++i) c.set_output(i, batch_shape(c.shape(0)), c.dtype());
}

// dA = A^-T times the head of the logarithm.
void op::LinalgSlogdet::grad(GradContext& g) const {
  const NDArray& a = g.input(0);
  const NDArray& sign = g.output(0);
  const NDArray scale = as_numbers(g.head(1) * nd.abs(sign), a.shape());
  g.set(0, nd.broadcast_mul(inverse_or_identity(a, sign), scale));
}

void run_cpu(const op::LinalgSlogdet&, KernelContext& c) {
  in_float_or_double(c.in(0).dtype, [&]<class T>() {
    determinants<T>(c, [&](int64_t i, const Determinant& d) {
      if (c.out(0).data) c.out(0).as<T>()[i] = T(d.sign);
      if (c.out(1).data) c.out(1).as<T>()[i] = T(d.log);
    });
  });
}

}  // namespace kaon
