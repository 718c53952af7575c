// Where the elements of a rolled array come from, for both devices.
#pragma once

#include <cstdint>

#include "kaon/ops/host_device.h"
#include "kaon/ops/search/search.h"

namespace kaon::ops {

// An array of `ndim` axes rolled by shift[d], in [0, size[d]), along each; axes behind the last that moves are `inner`.
struct Rolled {
  int ndim = 0;
  int64_t size[Shape::max_ndim] = {}, shift[Shape::max_ndim] = {};
  int64_t inner = 1;

  // The sum of the shifts along an axis counts.
  Rolled(const op::Roll& op, const Shape& shape) {
    if (!op.axis) {
      ndim = 1, size[0] = shape.size();
      for (int64_t s : *op.shift) add(0, s);
    } else {
      ndim = shape.ndim();
      for (int d = 0; d < ndim; ++d) size[d] = shape[d];
      for (int i = 0; i < op.axis->ndim(); ++i) {
        add(normalize_axis((*op.axis)[i], ndim, "roll"), (*op.shift)[op.shift->ndim() == 1 ? 0 : i]);
      }
    }
    while (ndim > 1 && shift[ndim - 1] == 0) inner *= size[--ndim];
  }

  // The row, along the last axis that moves, that row r comes from.
  KAON_HOST_DEVICE int64_t source_row(int64_t r) const {
    int64_t source = 0, step = 1;
    for (int d = ndim - 1; d-- > 0;) {
      const int64_t at = r % size[d], from = at - shift[d];
      source += (from < 0 ? from + size[d] : from) * step;
      step *= size[d], r /= size[d];
    }
    return source;
  }
  KAON_HOST_DEVICE int64_t row_elements() const { return size[ndim - 1] * inner; }
  // How many elements of a row go from its end to its begin.
  KAON_HOST_DEVICE int64_t wrapped() const { return shift[ndim - 1] * inner; }

 private:
  void add(int d, int64_t s) {
    if (size[d] > 0) shift[d] = ((shift[d] + s % size[d]) % size[d] + size[d]) % size[d];
  }
};

}  // namespace kaon::ops
