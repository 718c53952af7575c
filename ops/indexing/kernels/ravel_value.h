// Tuples of indices as positions in a row-major array, and back. For both devices.
#pragma once

#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/shape.h"

namespace kaon::ops {

// The sizes of an array.
struct RavelSizes {
  int count = 0;
  int64_t size[Shape::max_ndim] = {};
  explicit RavelSizes(const Shape& shape) : count(shape.ndim()) {
    for (int k = 0; k < count; ++k) size[k] = shape[k];
  }
};

// The position that column j of tuples (sizes.count, n) names. Whole numbers wrap.
template <class T>
KAON_HOST_DEVICE int64_t ravel_value(const RavelSizes& sizes, const T* tuples, int64_t n, int64_t j) {
  int64_t position = 0;
  for (int k = 0; k < sizes.count; ++k) {
    const T index = tuples[k * n + j];
    if constexpr (is_floating(dtype_of<T>)) {
      position = to_index(double(position) * double(sizes.size[k]) + double(accumulate_t<T>(index)));
    } else {
      position = int64_t(uint64_t(position) * uint64_t(sizes.size[k]) + uint64_t(int64_t(index)));
    }
  }
  return position;
}

// Column j of the tuples (sizes.count, n) that name the position.
template <class T>
KAON_HOST_DEVICE void unravel_value(const RavelSizes& sizes, T position, T* tuples, int64_t n, int64_t j) {
  int64_t left = to_index(position);
  for (int k = sizes.count - 1; k > 0; --k) {
    const int64_t above = left / sizes.size[k];
    tuples[k * n + j] = T(accumulate_t<T>(left - above * sizes.size[k]));
    left = above;
  }
  tuples[j] = T(accumulate_t<T>(left));
}

}  // namespace kaon::ops
