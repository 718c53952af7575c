// What all elements up to each one come to, along an axis, on the CPU.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

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

// Whole lines or pieces of lines with inner = 1: how many of them are scanned at a time. Each step waits for the one
// before it in the same line, and several lines hide that.
inline constexpr int64_t scan_side_by_side = 8;

// Four elements of four bytes each; a square of them is turned in registers.
using FourElements = uint32_t __attribute__((vector_size(16)));

inline void turn_square(FourElements (&row)[4]) {
  const FourElements a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5),
                     b = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5),
                     c = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7),
                     d = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  row[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5), row[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  row[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5), row[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

// Steps [0, n), n a multiple of 4, of the lines that begin at x + at[g], with neighbouring lines in a vector.
template <class T, class Sum, class F>
void scan_squares(const T* x, T* y, const int64_t (&at)[scan_side_by_side], int64_t n, bool forward,
                  Sum (&sum)[scan_side_by_side], const F& f) {
  using Four = FourElements;
  constexpr int64_t lines = scan_side_by_side;
  const auto in_order = [&](Four v) { return forward ? v : __builtin_shufflevector(v, v, 3, 2, 1, 0); };
  for (int64_t k = 0; k < n; k += 4) {
    const int64_t first = forward ? k : -k - 3;
    Sum step[4][lines];  // of each line
    for (int64_t g = 0; g < lines; g += 4) {
      Four row[4];
      for (int64_t i = 0; i < 4; ++i)
        std::memcpy(&row[i], x + at[g + i] + first, sizeof(Four)), row[i] = in_order(row[i]);
      turn_square(row);
      for (int64_t i = 0; i < 4; ++i) std::memcpy(&step[i][g], &row[i], sizeof(Four));
    }
    for (auto& column : step) {
      for (int64_t g = 0; g < lines; ++g) column[g] = sum[g] = f(sum[g], column[g]);
    }
    if (!y) continue;
    for (int64_t g = 0; g < lines; g += 4) {
      Four row[4];
      for (int64_t i = 0; i < 4; ++i) std::memcpy(&row[i], &step[i][g], sizeof(Four));
      turn_square(row);
      for (int64_t i = 0; i < 4; ++i)
        row[i] = in_order(row[i]), std::memcpy(y + at[g + i] + first, &row[i], sizeof(Four));
    }
  }
}

// Scans the pieces [0, pieces) of all lines, to y where it `writes`. before(piece, line) is the sum that a piece begins
// with; store(piece, line, sum) takes what it comes to.
template <class T, class Sum, class F, class Before, class Store>
void scan_contiguous(KernelContext& c, const ScanPieces& s, int64_t pieces, bool writes, const F& f,
                     const Before& before, const Store& store) {
  const T* const x = c.in(0).as<const T>();
  T* const y = c.out().as<T>();
  const int64_t step = s.reverse ? -1 : 1, group = scan_side_by_side;
  const auto item_at = [&](int64_t item) { return item / pieces * s.n + s.offset(s.begin(item % pieces)); };
  const auto length = [&](int64_t item) { return s.end(item % pieces) - s.begin(item % pieces); };
  const int64_t grain = ((1 << 14) / s.length + group) / group * group;  // whole groups
  c.run.parallel_for(s.outer * pieces, grain, [&](int64_t i, int64_t end) {
    while (i < end) {
      const int64_t m = std::min(group, end - i);
      Sum sum[scan_side_by_side];
      int64_t at[scan_side_by_side], common = length(i);
      for (int64_t g = 0; g < m; ++g) {
        at[g] = item_at(i + g);
        sum[g] = before((i + g) % pieces, (i + g) / pieces);
        common = std::min(common, length(i + g));
      }
      if (m < group) common = 0;
      int64_t k = 0;
      if constexpr (sizeof(T) == 4 && sizeof(Sum) == 4 && std::is_integral_v<T> == std::is_integral_v<Sum>) {
        k = common / 4 * 4;
        scan_squares<T, Sum>(x, writes ? y : nullptr, at, k, !s.reverse, sum, f);
      }
      for (; k < common; ++k) {
        for (int64_t g = 0; g < group; ++g) {
          sum[g] = f(sum[g], Sum(x[at[g] + k * step]));
          if (writes) y[at[g] + k * step] = T(sum[g]);
        }
      }
      for (int64_t g = 0; g < m; ++g) {
        const int64_t rest = at[g] + common * step;
        sum[g] = scan_one(x + rest, writes ? y + rest : nullptr, length(i + g) - common, step, sum[g], f);
        store((i + g) % pieces, (i + g) / pieces, sum[g]);
      }
      i += m;
    }
  });
}

// y_i = f(f(x_0, x_1) ... x_i), accumulated in Sum; `none` is its neutral element.
template <class T, class Sum, class F>
void scan_lines(KernelContext& c, ScanPieces s, Sum none, const F& f) {
  if (s.pieces > 1) {  // neighbouring pieces not a multiple of a page apart, or they would share sets of the cache
    s.length += 64 / int64_t(sizeof(T));
    s.pieces = (s.n + s.length - 1) / s.length;
  }
  const T* const x = c.in(0).as<const T>();
  T* const y = c.out().as<T>();
  const int64_t lines = s.outer * s.inner;
  Sum* before = nullptr;  // the sum of all pieces before one, by piece and line
  if (s.pieces > 1) {
    before = static_cast<Sum*>(c.run.workspace(size_t(s.pieces * lines) * sizeof(Sum)));
    std::fill_n(before, lines, none);
    if (s.inner == 1) {
      scan_contiguous<T, Sum>(
          c, s, s.pieces - 1, false, f, [&](int64_t, int64_t) { return none; },
          [&](int64_t piece, int64_t line, Sum sum) { before[(piece + 1) * lines + line] = sum; });
    } else {
      for_each_run(c, s, s.pieces - 1, [&](int64_t first, int64_t line, int64_t width, int64_t piece) {
        Sum sum[scan_width];
        std::fill_n(sum, width, none);
        for (int64_t k = s.begin(piece); k < s.end(piece); ++k) {
          for (int64_t i = 0; i < width; ++i) sum[i] = f(sum[i], Sum(x[first + s.offset(k) + i]));
        }
        std::copy_n(sum, width, before + (piece + 1) * lines + line);
      });
    }
    for (int64_t i = lines; i < s.pieces * lines; ++i) before[i] = f(before[i - lines], before[i]);
  }
  if (s.inner == 1) {
    return scan_contiguous<T, Sum>(
        c, s, s.pieces, true, f,
        [&](int64_t piece, int64_t line) { return before ? before[piece * lines + line] : none; },
        [](int64_t, int64_t, Sum) {});
  }
  for_each_run(c, s, s.pieces, [&](int64_t first, int64_t line, int64_t width, int64_t piece) {
    Sum sum[scan_width];
    std::fill_n(sum, width, none);
    if (before) std::copy_n(before + piece * lines + line, width, sum);
    for (int64_t k = s.begin(piece); k < s.end(piece); ++k) {
      const int64_t at = first + s.offset(k);
      for (int64_t i = 0; i < width; ++i) {
        sum[i] = f(sum[i], Sum(x[at + i]));
        y[at + i] = T(sum[i]);
      }
    }
  });
}

}  // namespace kaon::ops
