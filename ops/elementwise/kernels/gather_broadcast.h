// Arrays whose elements repeat under broadcasting.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kaon/ops/shape.h"

namespace kaon::ops {

// n elements from number `first` on of an array that is walked with `stride` along dimensions of `size` (ndim >= 1, row
// by row; a stride of 0 repeats).
template <class T>
void gather_broadcast(int ndim, const int64_t* size, const int64_t* stride, const T* from, int64_t first, T* to,
                      int64_t n) {
  int64_t index[Shape::max_ndim], offset = 0;
  for (int i = ndim; i-- > 0;) {
    index[i] = first % size[i];
    first /= size[i];
    offset += index[i] * stride[i];
  }
  const int last = ndim - 1;
  const int64_t step = stride[last];
  while (n > 0) {
    const int64_t m = std::min(size[last] - index[last], n);
    const T* row = from + offset;
    if (m < 16) {  // a call would cost more
      for (int64_t j = 0; j < m; ++j) to[j] = row[j * step];
    } else if (step == 1) {
      std::copy_n(row, m, to);
    } else if (step == 0) {
      std::fill_n(to, m, *row);
    } else {
      for (int64_t j = 0; j < m; ++j) to[j] = row[j * step];
    }
    to += m;
    n -= m;
    offset -= index[last] * step;
    index[last] = 0;
    for (int i = last; i-- > 0;) {
      offset += stride[i];
      if (++index[i] < size[i]) break;
      offset -= index[i] * stride[i];
      index[i] = 0;
    }
  }
}

}  // namespace kaon::ops
