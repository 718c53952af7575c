// Which elements of a matrix are above or below a diagonal, for both devices.
#pragma once

#include <cstdint>

#include "kaon/ops/host_device.h"
#include "kaon/ops/shape.h"

namespace kaon::ops {

// Row r of all matrices keeps its elements [begin(r), end(r)).
struct MatrixPart {
  int64_t rows, columns, k;
  bool lower, is_vector;  // a vector is each row

  MatrixPart(const Shape& x, int64_t k, bool lower)
      : rows(x.ndim() == 1 ? x[0] : x[x.ndim() - 2]), columns(x.back()), k(k), lower(lower), is_vector(x.ndim() == 1) {}
  KAON_HOST_DEVICE int64_t source_row(int64_t r) const { return is_vector ? 0 : r; }
  KAON_HOST_DEVICE int64_t begin(int64_t r) const { return lower ? 0 : inside(r % rows + k); }
  KAON_HOST_DEVICE int64_t end(int64_t r) const { return lower ? inside(r % rows + k + 1) : columns; }

 private:
  KAON_HOST_DEVICE int64_t inside(int64_t column) const { return column < 0 ? 0 : column < columns ? column : columns; }
};

}  // namespace kaon::ops
