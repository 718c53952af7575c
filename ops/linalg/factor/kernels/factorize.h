// Factorisations of one matrix and what is solved by them, on the CPU: in blocks, whose columns are updated in
// parallel.
#pragma once

#include <cstdint>

#include "kaon/ops/linalg/kernels/lapack.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// How a loop over the columns of one matrix is run: in parallel pieces that depend on the shape alone, or on the
// calling thread, where that is one of several which have a matrix each.
class Columns {
 public:
  explicit Columns(RunContext* run) : run_(run) {}
  // body(begin, end) for pieces of [0, n) with `width` columns each.
  template <class F>
  void each(int64_t n, int64_t width, F&& body) const {
    if (run_ && n > width) {
      run_->parallel_for(n, width, body);
    } else if (n > 0) {
      body(0, n);
    }
  }
  bool is_parallel() const { return run_ != nullptr; }

 private:
  RunContext* run_;
};

// The matrices here are column-major with n rows, without gaps: row-major ones seen as their transposes.

// U with U^T U = A in the upper triangle, which alone is read; what is below is undefined afterwards. Returns 0, or the
// order of the first leading minor that is not positive.
template <class T>
int64_t cholesky(const Columns& columns, T* a, int64_t n);

// P L U = A for n x n, with n pivots as LAPACK has them. Returns 0, or i where U(i, i) is the first 0.
template <class T>
int64_t lu(const Columns& columns, T* a, int64_t n, int* pivots);

// B (m, n) becomes the X with X P L U = B.
template <class T>
void solve_by_lu(const Columns& columns, const T* lu, const int* pivots, int64_t n, T* b, int64_t m);

// B becomes the X with op(A) X = B for B (n, m), or where `right` X op(A) = B for B (m, n), for a triangle A.
template <class T>
void solve_triangle(const Columns& columns, const T* a, int64_t n, bool upper, bool transpose, bool right, T* b,
                    int64_t m);

}  // namespace kaon::ops
