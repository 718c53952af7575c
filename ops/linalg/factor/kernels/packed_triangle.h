// A triangle of a square matrix whose elements are packed one after the other. For both devices.
#pragma once

#include "kaon/ops/host_device.h"

namespace kaon::ops {

// A matrix of n rows, of which the triangle of m rows that the diagonal `offset` bounds is packed: the one below it row
// by row, or the one above it column by column.
struct PackedTriangle {
  int64_t n, m, offset;
  bool is_lower;

  PackedTriangle(int64_t its_n, int64_t its_offset, bool lower)
      : n(its_n),
        m(its_n - (its_offset < 0 ? -its_offset : its_offset)),
        offset(its_offset),
        is_lower(its_offset < 0 || (its_offset == 0 && lower)) {}

  KAON_HOST_DEVICE int64_t size() const { return m * (m + 1) / 2; }
  // The columns [first, last) of row i that are in the triangle.
  KAON_HOST_DEVICE int64_t first(int64_t i) const { return is_lower ? 0 : i < m ? i + offset : n; }
  KAON_HOST_DEVICE int64_t last(int64_t i) const { return !is_lower ? n : i + offset < 0 ? 0 : i + offset + 1; }
  // Where element (i, j) is among the packed ones. In a row of a lower triangle its neighbour is the next one.
  KAON_HOST_DEVICE int64_t place(int64_t i, int64_t j) const {
    const int64_t line = is_lower ? i + offset : j - offset;
    return line * (line + 1) / 2 + (is_lower ? j : i);
  }
};

}  // namespace kaon::ops
