// Sizes of shapes that a program or a file gave: they may be too large to count.
#pragma once

#include <cstdint>
#include <optional>

#include "kaon/engine/device.h"
#include "kaon/ops/dtype.h"
#include "kaon/ops/shape.h"

namespace kaon::ops {

// The number of elements of a known shape; nothing where the dimensions other than 0 multiply to more than `most`.
std::optional<int64_t> checked_size(const Shape& shape, int64_t most = INT64_MAX);

// Whether arrays of this shape and dtype have less than 2^63 bytes, also were their dimensions of 0 left out. Each
// result of an operator is asked this, so it neither divides nor returns more than a register holds.
inline bool has_countable_bytes(const Shape& shape, DType dtype) noexcept {
  int64_t bytes = int64_t(size_of(dtype));
  bool overflows = false;
  for (const int64_t d : shape) overflows |= d != 0 && __builtin_mul_overflow(bytes, d, &bytes);
  return !overflows;
}

// Throws ShapeError for a shape that is not known or too large, TypeError for an unknown dtype, DeviceError for a GPU
// that does not exist.
void check_new_array(const char* op, const Shape& shape, DType dtype, Device device);

}  // namespace kaon::ops
