// Which numbers rotary positions turn, and by which angles, for both devices.
#pragma once

#include <cmath>

#include "kaon/ops/host_device.h"
#include "kaon/ops/nn/attention/attention.h"

namespace kaon::ops {

struct RotarySizes {
  int64_t samples, inner, length, dim;  // data (samples, inner, length, dim): inner rows of steps share positions
  int64_t pairs;
  double offset, log_base, sign;
  bool interleaved;

  // positions: null, or their shape.
  RotarySizes(const op::RotaryEmbedding& op, const Shape& data, const Shape* positions)
      : length(data[data.ndim() - 2]),
        dim(data.back()),
        pairs((op.dims > 0 ? op.dims : dim) / 2),
        offset(op.offset),
        log_base(std::log(op.base)),
        sign(op.inverse ? -1 : 1),
        interleaved(op.interleaved) {
    const int64_t rows = data.product(0, data.ndim() - 2);
    samples = positions && positions->ndim() == 2 ? data[0] : 1;
    inner = samples > 0 ? rows / samples : 0;
  }
  // By how much pair i turns from one position to the next.
  KAON_HOST_DEVICE double frequency(int64_t i) const { return sign * ::exp(-log_base * double(i) / double(pairs)); }
  KAON_HOST_DEVICE int64_t first_of(int64_t i) const { return interleaved ? 2 * i : i; }
  KAON_HOST_DEVICE int64_t second_of(int64_t i) const { return interleaved ? 2 * i + 1 : i + pairs; }
};

}  // namespace kaon::ops
