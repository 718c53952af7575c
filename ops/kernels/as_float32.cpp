#include "kaon/ops/kernels/as_float32.h"

#include "kaon/ops/math/tile.h"

namespace kaon::ops {
namespace {

constexpr int64_t grain = 1 << 15;

}  // namespace

void widen(RunContext& run, const TensorView& from, float* to) {
  const auto convert = half_to_float32(from.dtype);
  run.parallel_for(from.size(), grain, [&](int64_t begin, int64_t end) {
    convert(from.as<uint16_t>() + begin, to + begin, size_t(end - begin));
  });
}

void narrow(RunContext& run, const float* from, const TensorView& to) {
  const auto convert = float32_to_half(to.dtype);
  run.parallel_for(to.size(), grain, [&](int64_t begin, int64_t end) {
    convert(from + begin, to.as<uint16_t>() + begin, size_t(end - begin));
  });
}

}  // namespace kaon::ops
