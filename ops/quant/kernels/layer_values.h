// Results of quantised layers, one number at a time: what kernels on both devices share. A light header.
#pragma once

#include <cmath>

#include "kaon/ops/host_device.h"
#include "kaon/ops/quant/kernels/quant_values.h"
#include "kaon/ops/quant/quant.h"

namespace kaon::ops {

// Whether act(s x) = s act(x) for s > 0, if alpha of clip is a multiple as well.
KAON_HOST_DEVICE inline bool is_homogeneous(FusedKind kind) {
  return kind == FusedKind::none || kind == FusedKind::relu || kind == FusedKind::clip || kind == FusedKind::leaky ||
         kind == FusedKind::abs;
}

KAON_HOST_DEVICE inline float fused_value(FusedKind kind, float alpha, float x) {
  switch (kind) {
    case FusedKind::none: return x;
    case FusedKind::relu: return x < 0 ? 0.f : x;
    case FusedKind::clip: return x < 0 ? 0.f : x > alpha ? alpha : x;
    case FusedKind::leaky: return x < 0 ? alpha * x : x;
    case FusedKind::abs: return fabsf(x);
    case FusedKind::sigmoid: return 1.f / (1.f + expf(-x));
    case FusedKind::softrelu: return (x > 0 ? x : 0.f) + log1pf(expf(-fabsf(x)));
    case FusedKind::tanh: return tanhf(x);
    case FusedKind::gelu: return 0.5f * x * (1.f + erff(x * 0.70710678f));
    case FusedKind::square: return x * x;
    case FusedKind::sqrt: return sqrtf(x);
    case FusedKind::exp: return expf(x);
  }
  return x;
}

// One level of sums of products, of data of this dtype and range and int8 weights of that one.
KAON_HOST_DEVICE inline float sum_level(DType data, float data_range, float weight_range) {
  return data_range / whole_level_count(data) * (weight_range / whole_level_count(DType::int8));
}

// The range of levels of this dtype. Where it is 0 all are 0, and any other range does.
KAON_HOST_DEVICE inline float usable_range(float min, float max, DType dtype) {
  const float range = magnitude(min, max);
  return range == 0 ? level_count(dtype) : range;
}

// Levels per unit of a filter of this range: its bias, which is added to sums, must not leave int32.
KAON_HOST_DEVICE inline float filter_scale(float range, float bias, float data_scale) {
  const float scale = range == 0 ? 1.f : levels_per_unit(level_count(DType::int8), range);
  if (bias == 0) return scale;
  const float most = (bias > 0 ? 2147483648.f : -2147483648.f) / 2 / bias / data_scale;
  return most < scale ? most : scale;
}

}  // namespace kaon::ops
