// What all elements up to each one come to, on CUDA: a thread for each piece of each line.
#pragma once

#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/reduce/kernels/scan_pieces.h"

namespace kaon::cuda {

// The first element of the line.
__device__ inline int64_t first_of(const ops::ScanPieces& s, int64_t line) {
  return line / s.inner * s.n * s.inner + line % s.inner;
}

template <class T, class Sum, class F>
struct SumPiece {
  ops::ScanPieces s;
  int64_t lines;
  const T* x;
  Sum none;
  F f;
  Sum* before;
  __device__ void operator()(int64_t i) const {
    const int64_t piece = i / lines, first = first_of(s, i % lines);
    Sum sum = none;
    for (int64_t k = s.begin(piece); k < s.end(piece); ++k) sum = f(sum, Sum(x[first + s.offset(k)]));
    before[i + lines] = sum;
  }
};

template <class Sum, class F>
struct AddPieces {
  int64_t pieces, lines;
  Sum none;
  F f;
  Sum* before;
  __device__ void operator()(int64_t line) const {
    Sum sum = none;
    before[line] = sum;
    for (int64_t p = 1; p < pieces; ++p) before[p * lines + line] = sum = f(sum, before[p * lines + line]);
  }
};

template <class T, class Sum, class F>
struct ScanPiece {
  ops::ScanPieces s;
  int64_t lines;
  const T* x;
  T* y;
  Sum none;
  F f;
  const Sum* before;
  __device__ void operator()(int64_t i) const {
    const int64_t piece = i / lines, first = first_of(s, i % lines);
    Sum sum = before ? before[i] : none;
    for (int64_t k = s.begin(piece); k < s.end(piece); ++k) {
      const int64_t at = first + s.offset(k);
      sum = f(sum, Sum(x[at]));
      y[at] = T(sum);
    }
  }
};

// y_i = f(f(x_0, x_1) ... x_i) of input and output 0, as on the CPU. F: `__device__ Sum operator()(Sum, Sum) const`.
template <class T, class Sum, class F>
void scan_lines(KernelContext& c, const ops::ScanPieces& s, Sum none, const F& f) {
  const int64_t lines = s.outer * s.inner;
  const T* x = c.in(0).as<const T>();
  Sum* before = nullptr;
  if (s.pieces > 1) {
    before = static_cast<Sum*>(c.run.workspace(size_t(s.pieces * lines) * sizeof(Sum)));
    for_each(c, (s.pieces - 1) * lines, SumPiece<T, Sum, F>{s, lines, x, none, f, before});
    for_each(c, lines, AddPieces<Sum, F>{s.pieces, lines, none, f, before});
  }
  for_each(c, s.pieces * lines, ScanPiece<T, Sum, F>{s, lines, x, c.out().as<T>(), none, f, before});
}

}  // namespace kaon::cuda
