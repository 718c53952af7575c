#include "kaon/ops/linalg/factor/kernels/factorize.h"

#include <algorithm>
#include <cmath>

namespace kaon::ops {
namespace {

// Matrices of up to this size are left to LAPACK whole.
constexpr int64_t whole = 256;
// Matrices of up to this size, and as many vectors, take less than a call of LAPACK.
constexpr int64_t tiny = 8;
// Columns of a block, and of a piece of what is right of it.
constexpr int64_t block = 96, piece = 96;

// C (m, n) -= op(A) B with leading dimensions; A is (k, m) when transposed, else (m, k).
template <class T>
void subtract_product(bool transpose, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb,
                      T* c, int64_t ldc) {
  const int mi = int(m), ni = int(n), ki = int(k), la = int(lda), lb = int(ldb), lc = int(ldc);
  const T minus = -1, one = 1;
  Lapack<T>::get().gemm(transpose ? "T" : "N", "N", &mi, &ni, &ki, &minus, a, &la, b, &lb, &one, c, &lc, 1, 1);
}

struct Triangle {
  bool right, upper, transpose, unit;
};

template <class T>
int64_t cholesky_block(T* a, int64_t n, int64_t stride) {
  const int size = int(n), lda = int(stride);
  int info = 0;
  Lapack<T>::get().potrf("U", &size, a, &lda, &info, 1);
  return info;
}

// The factors of a panel (m, n), n <= m.
template <class T>
int64_t lu_panel(T* a, int64_t m, int64_t n, int64_t stride, int* pivots) {
  const int rows = int(m), columns = int(n), lda = int(stride);
  int info = 0;
  Lapack<T>::get().getrf(&rows, &columns, a, &lda, pivots, &info);
  return info;
}

// Exchanges row i of the columns with row pivots[i], for the first `count` rows.
template <class T>
void exchange_rows(T* a, int64_t columns, int64_t stride, int64_t count, const int* pivots) {
  const int n = int(columns), lda = int(stride), first = 1, last = int(count), step = 1;
  Lapack<T>::get().laswp(&n, a, &lda, &first, &last, pivots, &step);
}

template <class T>
int64_t tiny_cholesky(T* a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    T* const column = a + j * n;
    for (int64_t i = 0; i <= j; ++i) {
      T rest = column[i];
      for (int64_t k = 0; k < i; ++k) rest -= a[i * n + k] * column[k];
      if (i < j) {
        column[i] = rest / a[i * n + i];
      } else if (rest <= 0) {
        return j + 1;
      } else {
        column[j] = std::sqrt(rest);
      }
    }
  }
  return 0;
}

template <class T>
int64_t tiny_lu(T* a, int64_t n, int* pivots) {
  int64_t zero = 0;
  for (int64_t j = 0; j < n; ++j) {
    T* const column = a + j * n;
    int64_t pivot = j;
    for (int64_t i = j + 1; i < n; ++i) {
      if (std::fabs(column[i]) > std::fabs(column[pivot])) pivot = i;
    }
    pivots[j] = int(pivot + 1);
    for (int64_t k = 0; k < n && pivot != j; ++k) std::swap(a[k * n + j], a[k * n + pivot]);
    if (column[j] == 0) {
      if (zero == 0) zero = j + 1;
      continue;
    }
    for (int64_t i = j + 1; i < n; ++i) column[i] /= column[j];
    for (int64_t k = j + 1; k < n; ++k) {
      for (int64_t i = j + 1; i < n; ++i) a[k * n + i] -= column[i] * a[k * n + j];
    }
  }
  return zero;
}

template <class T>
void tiny_solve(const Triangle& t, int64_t m, int64_t n, const T* a, int64_t lda, T* b, int64_t ldb) {
  const int64_t size = t.right ? n : m, vectors = t.right ? m : n, step = t.right ? ldb : 1, other = t.right ? 1 : ldb;
  // X op(A) = B is op(A)^T X^T = B^T
  const bool turned = t.transpose != t.right, forward = t.upper == turned;
  const int64_t row = turned ? lda : 1, column = turned ? 1 : lda;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t at = forward ? i : size - 1 - i;
    T* const x = b + at * step;
    for (int64_t k = forward ? 0 : at + 1; k < (forward ? at : size); ++k) {
      const T factor = a[at * row + k * column];
      for (int64_t v = 0; v < vectors; ++v) x[v * other] -= factor * b[k * step + v * other];
    }
    for (int64_t v = 0; v < vectors && !t.unit; ++v) x[v * other] /= a[at * (lda + 1)];
  }
}

// B (m, n) becomes the X with op(A) X = B or X op(A) = B.
template <class T>
void solve(const Triangle& t, int64_t m, int64_t n, const T* a, int64_t lda, T* b, int64_t ldb) {
  if (std::max(m, n) <= tiny) return tiny_solve(t, m, n, a, lda, b, ldb);
  const int mi = int(m), ni = int(n), la = int(lda), lb = int(ldb);
  const T one = 1;
  Lapack<T>::get().trsm(t.right ? "R" : "L", t.upper ? "U" : "L", t.transpose ? "T" : "N", t.unit ? "U" : "N", &mi, &ni,
                        &one, a, &la, b, &lb, 1, 1, 1, 1);
}

}  // namespace

template <class T>
int64_t cholesky(const Columns& columns, T* a, int64_t n) {
  if (n <= tiny) return tiny_cholesky(a, n);
  if (n <= whole || !columns.is_parallel()) return cholesky_block(a, n, n);
  for (int64_t k = 0; k < n; k += block) {
    const int64_t size = std::min(block, n - k), rest = n - k - size;
    T* const diagonal = a + k * (n + 1);
    if (const int64_t wrong = cholesky_block(diagonal, size, n)) return k + wrong;
    T* const right = diagonal + size * n;  // (size, rest), and below it what is left
    columns.each(rest, piece, [&](int64_t begin, int64_t end) {
      solve({.right = false, .upper = true, .transpose = true, .unit = false}, size, end - begin, diagonal, n,
            right + begin * n, n);
    });
    columns.each(rest, piece, [&](int64_t begin, int64_t end) {
      subtract_product(true, end, end - begin, size, right, n, right + begin * n, n, right + size + begin * n, n);
    });
  }
  return 0;
}

template <class T>
int64_t lu(const Columns& columns, T* a, int64_t n, int* pivots) {
  if (n <= tiny) return tiny_lu(a, n, pivots);
  if (n <= whole || !columns.is_parallel()) return lu_panel(a, n, n, n, pivots);
  int64_t zero = 0;
  for (int64_t k = 0; k < n; k += block) {
    const int64_t size = std::min(block, n - k), rest = n - k - size;
    T* const row = a + k;  // of blocks
    T* const diagonal = row + k * n;
    if (const int64_t at = lu_panel(diagonal, n - k, size, n, pivots + k); at && zero == 0) zero = k + at;
    const Triangle left{.right = false, .upper = false, .transpose = false, .unit = true};
    columns.each(rest, piece, [&](int64_t begin, int64_t end) {
      T* const right = diagonal + (size + begin) * n;
      exchange_rows(right, end - begin, n, size, pivots + k);
      solve(left, size, end - begin, diagonal, n, right, n);
      subtract_product(false, rest, end - begin, size, diagonal + size, n, right, n, right + size, n);
    });
    if (k > 0) exchange_rows(row, k, n, size, pivots + k);
    for (int64_t i = k; i < k + size; ++i) pivots[i] += int(k);
  }
  return zero;
}

template <class T>
void solve_by_lu(const Columns& columns, const T* lu, const int* pivots, int64_t n, T* b, int64_t m) {
  if (n == 0 || m == 0) return;
  columns.each(m, piece, [&](int64_t begin, int64_t end) {
    T* const rows = b + begin;
    solve({.right = true, .upper = true, .transpose = false, .unit = false}, end - begin, n, lu, n, rows, m);
    solve({.right = true, .upper = false, .transpose = false, .unit = true}, end - begin, n, lu, n, rows, m);
    for (int64_t i = n; i-- > 0;) {
      if (pivots[i] != i + 1) std::swap_ranges(rows + i * m, rows + i * m + (end - begin), rows + (pivots[i] - 1) * m);
    }
  });
}

template <class T>
void solve_triangle(const Columns& columns, const T* a, int64_t n, bool upper, bool transpose, bool right, T* b,
                    int64_t m) {
  if (n == 0 || m == 0) return;
  const Triangle t{.right = right, .upper = upper, .transpose = transpose, .unit = false};
  columns.each(m, piece, [&](int64_t begin, int64_t end) {
    if (right) {
      solve(t, end - begin, n, a, n, b + begin, m);
    } else {
      solve(t, n, end - begin, a, n, b + begin * n, n);
    }
  });
}

template int64_t cholesky(const Columns&, float*, int64_t);
template int64_t cholesky(const Columns&, double*, int64_t);
template int64_t lu(const Columns&, float*, int64_t, int*);
template int64_t lu(const Columns&, double*, int64_t, int*);
template void solve_by_lu(const Columns&, const float*, const int*, int64_t, float*, int64_t);
template void solve_by_lu(const Columns&, const double*, const int*, int64_t, double*, int64_t);
template void solve_triangle(const Columns&, const float*, int64_t, bool, bool, bool, float*, int64_t);
template void solve_triangle(const Columns&, const double*, int64_t, bool, bool, bool, double*, int64_t);

}  // namespace kaon::ops
