#include "kaon/ops/quant/kernels/layer_finish.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kaon/ops/kernels/image_layout.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/quant/kernels/layer_values.h"
#include "kaon/ops/quant/kernels/quant_tiles.h"

namespace kaon::ops {
namespace {

template <class F>
void each(float* y, size_t n, const F& f) {
  for (size_t i = 0; i < n; ++i) y[i] = f(y[i]);
}

void activate(FusedKind kind, float alpha, float* y, size_t n) {
  if (kind == FusedKind::relu) return relu_floats(y, n);
  if (kind != FusedKind::none) each(y, n, [=](float x) { return fused_value(kind, alpha, x); });
}

// `y` in levels; `in_units`: it is in units, and becomes levels.
void activate_levels(FusedKind kind, double alpha, float unit, bool in_units, float* y, size_t n) {
  if (is_homogeneous(kind)) return activate(kind, kind == FusedKind::clip ? float(alpha) * unit : float(alpha), y, n);
  if (!in_units) each(y, n, [=](float x) { return x / unit; });
  activate(kind, float(alpha), y, n);
  if (unit != 1) each(y, n, [=](float x) { return x * unit; });
}

}  // namespace

bool is_nonnegative(FusedKind kind) {
  return kind != FusedKind::none && kind != FusedKind::tanh && kind != FusedKind::leaky && kind != FusedKind::gelu;
}

bool LayerFinish::is_exact() const {
  return out.dtype == DType::int32 && !addend && !scale && (act == FusedKind::none || act == FusedKind::relu);
}

void LayerFinish::operator()(const Int8Sums& part) const {
  const int32_t* own_bias = bias ? bias + part.channel : nullptr;
  if (is_exact()) {
    finish_sums(part.sums, part.positions, part.channels, own_bias, act == FusedKind::relu);
    return write(part, part.sums);
  }
  const auto count = size_t(part.positions * part.channels);
  const float* const own_scale = scale ? scale + part.channel : nullptr;
  const bool is_linear = act == FusedKind::none || act == FusedKind::relu;
  if (is_linear && own_scale && !addend && size_of(out.dtype) == 1) {
    const LevelsOfSums how{out.dtype, own_bias, own_scale, zero, own_bias && is_bias_whole, act == FusedKind::relu};
    if (in_rows) {
      uint8_t* const to = out.as<uint8_t>() + (part.image * positions + part.first) * filters + part.channel;
      return sums_to_levels(part.sums, part.positions, part.channels, how, to, filters);
    }
    Scratch levels(count);
    sums_to_levels(part.sums, part.positions, part.channels, how, levels.data(), part.channels);
    return write(part, levels.data());
  }
  if (is_bias_whole) {
    finish_sums(part.sums, part.positions, part.channels, own_bias, false);
    own_bias = nullptr;
  }
  auto* const y = reinterpret_cast<float*>(part.sums);  // in place: an element is read before it is written
  sums_to_floats(part.sums, part.positions, part.channels, own_bias, own_scale, y);
  activate_levels(act, act_alpha, unit, true, y, count);
  if (addend) {
    Scratch bytes(count), floats(count * 4);
    const uint8_t* const from = addend->as<const uint8_t>() + (part.image * filters + part.channel) * positions;
    transpose_bytes(from + part.first, positions, bytes.as<uint8_t>(), part.channels, part.channels, part.positions);
    levels_to_floats(addend->dtype, bytes.data(), 1, floats.as<float>(), count);
    add_scaled(floats.as<float>(), addend_scale, true, y, count);
    activate_levels(postsum, postsum_alpha, unit, false, y, count);
    if (out.dtype == DType::uint8 && addend->dtype == DType::int8)
      each(y, count, [](float x) { return std::min(x, 127.f); });
  }
  if (out.dtype == DType::float32) return write(part, y);
  Scratch levels(count * size_of(out.dtype));
  floats_to_levels(y, 1, out.dtype, levels.data(), count);
  write(part, levels.data());
}

void LayerFinish::write(const Int8Sums& part, const void* result) const {
  const size_t width = size_of(out.dtype);
  char* const to = out.as<char>();
  if (in_rows) {
    const char* from = static_cast<const char*>(result);
    const int64_t first = part.image * positions + part.first;
    for (int64_t p = 0; p < part.positions; ++p, from += size_t(part.channels) * width) {
      std::memcpy(to + size_t((first + p) * filters + part.channel) * width, from, size_t(part.channels) * width);
    }
    return;
  }
  char* const image = to + size_t((part.image * filters + part.channel) * positions + part.first) * width;
  if (width == 1) {
    transpose_bytes(static_cast<const uint8_t*>(result), part.channels, reinterpret_cast<uint8_t*>(image), positions,
                    part.positions, part.channels);
  } else {
    convert_positions(static_cast<const float*>(result), ImageLayout::channels_last, part.positions,
                      reinterpret_cast<float*>(image), ImageLayout::row_major, positions, part.channels,
                      part.positions);
  }
}

}  // namespace kaon::ops
