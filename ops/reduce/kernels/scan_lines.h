// What all elements up to each one come to, along an axis, on the CPU.
#pragma once

#include <algorithm>

#include "kaon/ops/reduce/kernels/scan_pieces.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

inline constexpr int64_t scan_width = 64;  // neighbouring lines that are scanned side by side

// Calls f(first element of the lines, first number of the lines, how many, piece) for runs of neighbouring lines.
template <class F>
void for_each_run(KernelContext& c, const ScanPieces& s, int64_t pieces, const F& f) {
  const int64_t runs = (s.inner + scan_width - 1) / scan_width;
  const int64_t cost = s.length * std::min(s.inner, scan_width);
  c.run.parallel_for(s.outer * pieces * runs, std::max<int64_t>(1, (1 << 14) / cost), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const int64_t column = i % runs * scan_width, piece = i / runs % pieces, o = i / runs / pieces;
      f(o * s.n * s.inner + column, o * s.inner + column, std::min(scan_width, s.inner - column), piece);
    }
  });
}

// Elements x_k, `step` apart, k < n, as a running sum from `sum` on; to y where that is given.
template <class T, class Sum, class F>
Sum scan_one(const T* x, T* y, int64_t n, int64_t step, Sum sum, const F& f) {
  if (!y) {
    for (int64_t k = 0; k < n; ++k) sum = f(sum, Sum(x[k * step]));
  } else {
    for (int64_t k = 0; k < n; ++k) y[k * step] = T(sum = f(sum, Sum(x[k * step])));
  }
  return sum;
}

// y_i = f(f(x_0, x_1) ... x_i), accumulated in Sum; `none` is its neutral element.
template <class T, class Sum, class F>
void scan_lines(KernelContext& c, const ScanPieces& s, Sum none, const F& f) {
  const T* const x = c.in(0).as<const T>();
  T* const y = c.out().as<T>();
  const int64_t lines = s.outer * s.inner;
  Sum* before = nullptr;  // the sum of all pieces before one, by piece and line
  if (s.pieces > 1) {
    before = static_cast<Sum*>(c.run.workspace(size_t(s.pieces * lines) * sizeof(Sum)));
    std::fill_n(before, lines, none);
    for_each_run(c, s, s.pieces - 1, [&](int64_t first, int64_t line, int64_t width, int64_t piece) {
      const int64_t begin = s.begin(piece), end = s.end(piece);
      if (s.inner == 1) {
        const T* const from = x + first + s.offset(begin);
        before[(piece + 1) * lines + line] = scan_one<T>(from, nullptr, end - begin, s.reverse ? -1 : 1, none, f);
        return;
      }
      Sum sum[scan_width];
      std::fill_n(sum, width, none);
      for (int64_t k = begin; k < end; ++k) {
        for (int64_t i = 0; i < width; ++i) sum[i] = f(sum[i], Sum(x[first + s.offset(k) + i]));
      }
      std::copy_n(sum, width, before + (piece + 1) * lines + line);
    });
    for (int64_t i = lines; i < s.pieces * lines; ++i) before[i] = f(before[i - lines], before[i]);
  }
  for_each_run(c, s, s.pieces, [&](int64_t first, int64_t line, int64_t width, int64_t piece) {
    const int64_t begin = s.begin(piece), end = s.end(piece);
    if (s.inner == 1) {
      const int64_t at = first + s.offset(begin);
      scan_one(x + at, y + at, end - begin, s.reverse ? -1 : 1, before ? before[piece * lines + line] : none, f);
      return;
    }
    Sum sum[scan_width];
    std::fill_n(sum, width, none);
    if (before) std::copy_n(before + piece * lines + line, width, sum);
    for (int64_t k = begin; k < end; ++k) {
      const int64_t at = first + s.offset(k);
      for (int64_t i = 0; i < width; ++i) {
        sum[i] = f(sum[i], Sum(x[at + i]));
        y[at + i] = T(sum[i]);
      }
    }
  });
}

}  // namespace kaon::ops
