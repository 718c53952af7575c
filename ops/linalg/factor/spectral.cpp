// Factors with orthonormal rows: L Q, eigenvectors of symmetric matrices, singular vectors.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/linalg/factor/factor.h"
#include "kaon/ops/linalg/factor/kernels/matrices.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::LinalgGelqf::def = make_op_def<op::LinalgGelqf>();
constinit const OpDef op::LinalgSyevd::def = make_op_def<op::LinalgSyevd>();
constinit const OpDef op::LinalgSvd::def = make_op_def<op::LinalgSvd>();

namespace {

double lq_flops(const Matrices& a) { return 4 * double(a.size()) * double(a.rows); }
double symmetric_eigen_flops(const Matrices& a) { return 9 * double(a.size()) * double(a.rows); }
double svd_flops(const Matrices& a) { return 12 * double(a.size()) * double(std::min(a.rows, a.columns)); }

NDArray product(const NDArray& a, const NDArray& b, bool transpose_a = false, bool transpose_b = false) {
  return nd.linalg_gemm2(a, b, {.transpose_a = transpose_a, .transpose_b = transpose_b});
}

// 1 / x, and 0 where x is.
NDArray inverse_or_zero(const NDArray& x) {
  const NDArray is_zero = nd.equal(x, 0);
  return nd.reciprocal(x + is_zero) - is_zero;
}
// 1 / (x[j] - x[i]) of a vector for each matrix, and 0 where they are equal.
NDArray inverse_differences(const NDArray& x) { return inverse_or_zero(nd.broadcast_sub(as_rows(x), as_columns(x))); }

// Rows of `vectors` whose element of largest magnitude is negative change sign, and the columns of `others` with them.
template <class T>
void make_positive(T* vectors, int64_t count, int64_t size, T* others, int64_t rows) {
  for (int64_t i = 0; i < count; ++i) {
    T* const row = vectors + i * size;
    const T most = *std::max_element(row, row + size, [](T a, T b) { return std::fabs(a) < std::fabs(b); });
    if (!(most < 0)) continue;
    std::transform(row, row + size, row, [](T v) { return -v; });
    for (int64_t k = 0; k < rows; ++k) others[k * count + i] = -others[k * count + i];
  }
}

// NaN and infinity have no eigenvalues; LAPACK may search for them without end.
template <class T>
bool is_finite(const T* a, int64_t n) {
  return std::all_of(a, a + n, [](T v) { return std::isfinite(v); });
}
template <class T>
bool is_lower_finite(const T* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!is_finite(a + i * n, i + 1)) return false;
  }
  return true;
}
template <class T>
void fill_nan(T* to, int64_t n) {
  std::fill_n(to, n, std::numeric_limits<T>::quiet_NaN());
}

// Where an output is wanted, its matrix i; else `instead`.
template <class T>
T* place(const TensorView& out, int64_t i, int64_t size, T* instead) {
  return out.data ? out.as<T>() + i * size : instead;
}

}  // namespace

double op::LinalgGelqf::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  const Matrices a(inputs[0].shape);
  return double(a.batch) * lq_flops(a);
}

void op::LinalgGelqf::infer(InferContext& c) const {
  expect_matrices(c);
  expect_factorable(c);
  const Matrices a(c.shape(0));
  if (a.rows > a.columns) {
    c.fail(fmt::format("A must not have more rows than columns, got {}", c.describe_inputs()));
  }
  c.set_output(0, c.shape(0), c.dtype());
  c.set_output(1, of_batch(c.shape(0), {a.rows, a.rows}), c.dtype());
}

// dA = L^-T (dQ + M Q), M the lower triangle of L^T dL - dQ Q^T, mirrored.
void op::LinalgGelqf::grad(GradContext& g) const {
  const NDArray &q = g.output(0), &l = g.output(1), &dq = g.head(0);
  const NDArray middle = mirrored(product(l, g.head(1), true) - product(dq, q, false, true));
  g.set(0, nd.linalg_trsm(l, dq + product(middle, q), {.transpose = true}));
}

// Row-major, L Q is the transposed Q R of column-major matrices.
void run_cpu(const op::LinalgGelqf&, KernelContext& c) {
  in_float_or_double(c.in(0).dtype, [&]<class T>() {
    const Matrices m(c.in(0).shape);
    if (m.rows == 0) return;
    const int rows = int(m.columns), columns = int(m.rows), lwork = columns * 64;
    each_matrix(c.run, m.batch, lq_flops(m), [&](const Columns&, int64_t i) {
      const Lapack<T>& lapack = Lapack<T>::get();
      const Scratch memory(size_t(m.rows + lwork + (c.out(0).data ? 0 : m.size())) * sizeof(T));
      T *const tau = memory.as<T>(), *const work = tau + m.rows;
      T* const q = place(c.out(0), i, m.size(), work + lwork);
      int info = 0;
      std::copy_n(c.in(0).as<const T>() + i * m.size(), m.size(), q);
      lapack.geqrf(&rows, &columns, q, &rows, tau, work, &lwork, &info);
      if (T* const l = place<T>(c.out(1), i, m.rows * m.rows, nullptr)) {
        for (int64_t k = 0; k < m.rows; ++k) {
          std::copy_n(q + k * m.columns, k + 1, l + k * m.rows);
          std::fill_n(l + k * m.rows + k + 1, m.rows - k - 1, T(0));
        }
      }
      if (c.out(0).data) lapack.orgqr(&rows, &columns, &columns, q, &rows, tau, work, &lwork, &info);
    });
  });
}

double op::LinalgSyevd::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  const Matrices a(inputs[0].shape);
  return double(a.batch) * symmetric_eigen_flops(a);
}

void op::LinalgSyevd::infer(InferContext& c) const {
  expect_square(c);
  expect_factorable(c);
  constexpr int64_t most = 32000;  // LAPACK counts its scratch memory, 2 n^2 numbers, with 32 bits
  const int64_t n = c.shape(0).back();
  if (n > most) c.fail(fmt::format("the matrices must have at most {} rows, got {}", most, c.describe_inputs()));
  c.set_output(0, c.shape(0), c.dtype());
  c.set_output(1, of_batch(c.shape(0), {n}), c.dtype());
}

// dA = U^T sym(dU U^T / (l_i - l_j) + diag(dL)) U.
void op::LinalgSyevd::grad(GradContext& g) const {
  const NDArray &u = g.output(0), &values = g.output(1);
  NDArray middle = nd.linalg_makediag(g.head(1));
  if (g.has_head(0)) {
    const NDArray turns = product(g.head(0), u, false, true) * inverse_differences(values);
    middle = middle - (turns + transposed(turns)) * 0.5;
  }
  g.set(0, product(u, product(middle, u), true));
}

void run_cpu(const op::LinalgSyevd&, KernelContext& c) {
  in_float_or_double(c.in(0).dtype, [&]<class T>() {
    const Matrices m(c.in(0).shape);
    if (m.rows == 0) return;
    const int n = int(m.rows), lwork = 1 + 6 * n + 2 * n * n, liwork = 3 + 5 * n;
    each_matrix(c.run, m.batch, symmetric_eigen_flops(m), [&](const Columns&, int64_t i) {
      const size_t numbers = size_t(lwork) + size_t(m.rows + m.size());
      const Scratch memory(line_aligned(numbers * sizeof(T)) + size_t(liwork) * sizeof(int));
      T* const work = memory.as<T>();
      int* const iwork = reinterpret_cast<int*>(memory.data() + line_aligned(numbers * sizeof(T)));
      T* const u = place(c.out(0), i, m.size(), work + lwork);
      T* const values = place(c.out(1), i, m.rows, work + lwork + m.size());
      const T* const a = c.in(0).as<const T>() + i * m.size();
      if (!is_lower_finite(a, m.rows)) return fill_nan(u, m.size()), fill_nan(values, m.rows);
      std::copy_n(a, m.size(), u);
      int info = 0;
      Lapack<T>::get().syevd("V", "U", &n, u, &n, values, work, &lwork, iwork, &liwork, &info, 1, 1);
      if (info != 0) fail_matrix(op::LinalgSyevd::def, i, "has eigenvalues that were not found");
      make_positive<T>(u, m.rows, m.rows, nullptr, 0);
    });
  });
}

double op::LinalgSvd::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  const Matrices a(inputs[0].shape);
  return double(a.batch) * svd_flops(a);
}

void op::LinalgSvd::infer(InferContext& c) const {
  expect_matrices(c);
  expect_factorable(c);
  constexpr int64_t most = 23000;  // LAPACK counts its scratch memory, 4 k^2 numbers, with 32 bits
  const Matrices a(c.shape(0));
  const int64_t k = std::min(a.rows, a.columns);
  if (k > most) {
    c.fail(fmt::format("the matrices must have at most {} rows or columns, got {}", most, c.describe_inputs()));
  }
  c.set_output(0, of_batch(c.shape(0), {a.rows, k}), c.dtype());
  c.set_output(1, of_batch(c.shape(0), {k}), c.dtype());
  c.set_output(2, of_batch(c.shape(0), {k, a.columns}), c.dtype());
}

// dA = UT (E diag(L) + diag(L) F + diag(dL)) V, with E = skew(UT^T dUT) / (l_j^2 - l_i^2), F likewise of V dV^T, and
// what changes of UT and V are outside of the spaces that they span.
void op::LinalgSvd::grad(GradContext& g) const {
  const NDArray &ut = g.output(0), &l = g.output(1), &v = g.output(2);
  const Matrices a(g.input_like(0).shape());
  const NDArray inverses = inverse_differences(l) * inverse_or_zero(nd.broadcast_add(as_rows(l), as_columns(l)));
  const auto turns = [&](const NDArray& p) { return (p - transposed(p)) * inverses; };
  NDArray middle = nd.linalg_makediag(g.head(1));
  if (g.has_head(0)) middle = middle + nd.broadcast_mul(turns(product(ut, g.head(0), true)), as_rows(l));
  if (g.has_head(2)) middle = middle + nd.broadcast_mul(turns(product(v, g.head(2), false, true)), as_columns(l));
  NDArray da = product(product(ut, middle), v);
  if (g.has_head(0) && a.rows > a.columns) {
    const NDArray outside = g.head(0) - product(ut, product(ut, g.head(0), true));
    da = da + product(nd.broadcast_div(outside, as_rows(l)), v);
  }
  if (g.has_head(2) && a.columns > a.rows) {
    const NDArray outside = g.head(2) - product(product(g.head(2), v, false, true), v);
    da = da + product(ut, nd.broadcast_div(outside, as_columns(l)));
  }
  g.set(0, da);
}

// Column-major, A is its transpose (n, m): its left vectors are V's rows, and its right ones, transposed, UT.
void run_cpu(const op::LinalgSvd&, KernelContext& c) {
  in_float_or_double(c.in(0).dtype, [&]<class T>() {
    const Matrices m(c.in(0).shape);
    const int64_t k = std::min(m.rows, m.columns);
    if (k == 0 || m.batch == 0) return;
    const int rows = int(m.columns), columns = int(m.rows), vectors = int(k);
    const auto decompose = [&](T* a, T* values, T* v, T* ut, T* work, int lwork, int* iwork) {
      int info = 0;
      Lapack<T>::get().gesdd("S", &rows, &columns, a, &rows, values, v, &rows, ut, &vectors, work, &lwork, iwork, &info,
                             1);
      return info;
    };
    T wanted = 0;
    T none[1];
    int no_integers[1];
    decompose(none, none, none, none, &wanted, -1, no_integers);
    const int lwork = int(std::max(double(wanted), double(4 * k * k + 7 * k)));
    each_matrix(c.run, m.batch, svd_flops(m), [&](const Columns&, int64_t i) {
      const size_t numbers = size_t(lwork) + size_t(m.size() + k * (m.rows + 1 + m.columns));
      const Scratch memory(line_aligned(numbers * sizeof(T)) + size_t(8 * k) * sizeof(int));
      T* const work = memory.as<T>();
      T* const copy = work + lwork;
      T* const ut = place(c.out(0), i, m.rows * k, copy + m.size());
      T* const l = place(c.out(1), i, k, copy + m.size() + k * m.rows);
      T* const v = place(c.out(2), i, k * m.columns, copy + m.size() + k * (m.rows + 1));
      int* const iwork = reinterpret_cast<int*>(memory.data() + line_aligned(numbers * sizeof(T)));
      std::copy_n(c.in(0).as<const T>() + i * m.size(), m.size(), copy);
      if (!is_finite(copy, m.size())) {
        return fill_nan(ut, m.rows * k), fill_nan(l, k), fill_nan(v, k * m.columns);
      }
      if (decompose(copy, l, v, ut, work, lwork, iwork) != 0) {
        fail_matrix(op::LinalgSvd::def, i, "has singular values that were not found");
      }
      make_positive(v, k, m.columns, ut, m.rows);
    });
  });
}

}  // namespace kaon
