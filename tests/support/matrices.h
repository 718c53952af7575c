// Small matrices of doubles, for references: naive algorithms, each from its definition.
#pragma once

#include <functional>
#include <vector>

#include "kaon/tests/support/reference.h"

namespace kaon::test {

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> values{};

  Matrix(int64_t its_rows, int64_t its_columns)
      : rows(its_rows), columns(its_columns), values(size_t(its_rows * its_columns)) {}
  double& operator()(int64_t i, int64_t j) { return values.at(size_t(i * columns + j)); }
  double operator()(int64_t i, int64_t j) const { return values.at(size_t(i * columns + j)); }
};

Matrix identity(int64_t n);
Matrix transposed(const Matrix& a);
Matrix operator*(const Matrix& a, const Matrix& b);
Matrix operator*(double factor, Matrix a);
Matrix lower_triangle(Matrix a);
Matrix symmetric(const Matrix& a);  // (A + A^T) / 2
Matrix cholesky_factor(const Matrix& a);
Matrix inverse(Matrix a);  // by Gauss's elimination
double determinant(Matrix a);

struct Reflected {
  Matrix q, l;  // L Q = A, by Householder's reflections
};
Reflected reflected(const Matrix& a);

struct Eigen {
  Matrix vectors;              // rows, the element of largest magnitude positive
  std::vector<double> values;  // in ascending order
};
Eigen eigen(Matrix symmetric);

struct Singular {
  Matrix ut;
  std::vector<double> values;  // in descending order
  Matrix v;                    // the element of largest magnitude of each row positive
};
Singular singular(const Matrix& a);

// Matrix i of a batch, along the last two axes; its number of matrices.
Matrix matrix_of(const Host& x, int64_t i);
int64_t batch_of(const Shape& matrices);
// Matrices f(i) of a batch, as an array with these leading axes.
Host batch_of_matrices(const Shape& shape, const std::function<Matrix(int64_t)>& f);

}  // namespace kaon::test
