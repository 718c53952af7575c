#include "kaon/tests/support/matrices.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kaon::test {
namespace {

// Rows whose element of largest magnitude is negative change sign.
void make_positive(Matrix& rows, Matrix* others) {
  for (int64_t i = 0; i < rows.rows; ++i) {
    double most = 0;
    for (int64_t j = 0; j < rows.columns; ++j) most = std::abs(rows(i, j)) > std::abs(most) ? rows(i, j) : most;
    if (most >= 0) continue;
    for (int64_t j = 0; j < rows.columns; ++j) rows(i, j) = -rows(i, j);
    for (int64_t k = 0; others && k < others->rows; ++k) (*others)(k, i) = -(*others)(k, i);
  }
}

// Gauss's elimination of the columns of a, with the same steps on b; returns the determinant.
double eliminate(Matrix& a, Matrix& b) {
  double product = 1;
  for (int64_t j = 0; j < a.rows; ++j) {
    int64_t pivot = j;
    for (int64_t i = j; i < a.rows; ++i) pivot = std::abs(a(i, j)) > std::abs(a(pivot, j)) ? i : pivot;
    for (int64_t k = 0; k < a.columns; ++k) std::swap(a(j, k), a(pivot, k));
    for (int64_t k = 0; k < b.columns; ++k) std::swap(b(j, k), b(pivot, k));
    product *= pivot == j ? a(j, j) : -a(j, j);
    if (a(j, j) == 0) return 0;
    for (int64_t i = 0; i < a.rows; ++i) {
      if (i == j) continue;
      const double factor = a(i, j) / a(j, j);
      for (int64_t k = 0; k < a.columns; ++k) a(i, k) -= factor * a(j, k);
      for (int64_t k = 0; k < b.columns; ++k) b(i, k) -= factor * b(j, k);
    }
  }
  return product;
}

}  // namespace

Matrix identity(int64_t n) {
  Matrix a(n, n);
  for (int64_t i = 0; i < n; ++i) a(i, i) = 1;
  return a;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) t(j, i) = a(i, j);
  }
  return t;
}

Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < b.columns; ++j) {
      for (int64_t k = 0; k < a.columns; ++k) c(i, j) += a(i, k) * b(k, j);
    }
  }
  return c;
}

Matrix operator*(double factor, Matrix a) {
  for (double& v : a.values) v *= factor;
  return a;
}

Matrix lower_triangle(Matrix a) {
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = i + 1; j < a.columns; ++j) a(i, j) = 0;
  }
  return a;
}

Matrix symmetric(const Matrix& a) {
  Matrix s(a.rows, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.rows; ++j) s(i, j) = (a(i, j) + a(j, i)) / 2;
  }
  return s;
}

Matrix cholesky_factor(const Matrix& a) {
  Matrix l(a.rows, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double rest = a(i, j);
      for (int64_t k = 0; k < j; ++k) rest -= l(i, k) * l(j, k);
      l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
    }
  }
  return l;
}

Matrix inverse(Matrix a) {
  Matrix b = identity(a.rows);
  eliminate(a, b);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.rows; ++j) b(i, j) /= a(i, i);
  }
  return b;
}

double determinant(Matrix a) {
  Matrix none(a.rows, 0);
  return eliminate(a, none);
}

Reflected reflected(const Matrix& a) {
  Matrix l = a, q = identity(a.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    std::vector<double> v(size_t(a.columns), 0.0);
    double square = 0, behind = 0;
    for (int64_t k = i; k < a.columns; ++k) v[size_t(k)] = l(i, k), square += l(i, k) * l(i, k);
    for (int64_t k = i + 1; k < a.columns; ++k) behind += l(i, k) * l(i, k);
    if (behind == 0) continue;
    v[size_t(i)] += l(i, i) > 0 ? std::sqrt(square) : -std::sqrt(square);
    const double length = std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
    Matrix reflection = identity(a.columns);
    for (int64_t r = 0; r < a.columns; ++r) {
      for (int64_t c = 0; c < a.columns; ++c) reflection(r, c) -= 2 * v[size_t(r)] * v[size_t(c)] / length;
    }
    l = l * reflection, q = reflection * q;
  }
  Matrix first(a.rows, a.columns), square(a.rows, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) first(i, j) = q(i, j);
    for (int64_t j = 0; j <= i; ++j) square(i, j) = l(i, j);
  }
  return {first, square};
}

Eigen eigen(Matrix a) {
  const int64_t n = a.rows;
  Matrix u = identity(n);
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (a(p, q) == 0) continue;
        const double angle = 0.5 * std::atan2(2 * a(p, q), a(q, q) - a(p, p));
        Matrix turn = identity(n);
        turn(p, p) = turn(q, q) = std::cos(angle), turn(p, q) = -std::sin(angle), turn(q, p) = std::sin(angle);
        a = turn * a * transposed(turn), u = turn * u;
      }
    }
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return a(i, i) < a(j, j); });
  Eigen e{Matrix(n, n), {}};
  for (int64_t i = 0; i < n; ++i) {
    e.values.push_back(a(order[size_t(i)], order[size_t(i)]));
    for (int64_t j = 0; j < n; ++j) e.vectors(i, j) = u(order[size_t(i)], j);
  }
  make_positive(e.vectors, nullptr);
  return e;
}

Singular singular(const Matrix& a) {
  const bool is_tall = a.rows > a.columns;
  const Matrix wide = is_tall ? transposed(a) : a;
  const Eigen e = eigen(wide * transposed(wide));
  const int64_t k = wide.rows;
  Matrix left(k, k);  // the columns of wide = left diag(values) right
  std::vector<double> values;
  for (int64_t i = 0; i < k; ++i) {
    values.push_back(std::sqrt(e.values[size_t(k - 1 - i)]));
    for (int64_t j = 0; j < k; ++j) left(j, i) = e.vectors(k - 1 - i, j);
  }
  Matrix right = transposed(left) * wide;
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < wide.columns; ++j) right(i, j) /= values[size_t(i)];
  }
  Singular s = is_tall ? Singular{transposed(right), values, transposed(left)} : Singular{left, values, right};
  make_positive(s.v, &s.ut);
  return s;
}

Matrix matrix_of(const Host& x, int64_t i) {
  Matrix a(x.shape[x.shape.ndim() - 2], x.shape.back());
  for (size_t k = 0; k < a.values.size(); ++k) a.values[k] = x[size_t(i) * a.values.size() + k];
  return a;
}

int64_t batch_of(const Shape& matrices) { return matrices.product(0, matrices.ndim() - 2); }

Host batch_of_matrices(const Shape& shape, const std::function<Matrix(int64_t)>& f) {
  Host all{shape};
  for (int64_t i = 0; i < batch_of(shape); ++i) {
    const Matrix a = f(i);
    all.values.insert(all.values.end(), a.values.begin(), a.values.end());
  }
  return all;
}

}  // namespace kaon::test
