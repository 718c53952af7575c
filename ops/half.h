// Conversions between float32 and the bits of a 16-bit float. A light header.
#pragma once

#include <cstdint>

#include "kaon/engine/api.h"
#include "kaon/ops/host_device.h"

namespace KAON_API kaon {
namespace ops {

// On a GPU both are one instruction, which for NaN would give other bits than the CPU.

// Rounds to nearest even; too large becomes infinity, NaN stays a quiet NaN.
KAON_HOST_DEVICE inline uint16_t half_bits(float value) {
  const uint32_t u = bits_of(value);
  const uint32_t sign = (u >> 16) & 0x8000;
  const uint32_t magnitude = u & 0x7fffffff;
  if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00 | ((magnitude >> 13) & 0x1ff));
#ifdef __CUDA_ARCH__
  uint16_t rounded;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
  return rounded;
#else
  uint32_t result;
  if (magnitude >= 0x477ff000) {  // 65520 and above round beyond the largest half, 65504
    result = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // normal halves, from 2^-14; the exponent's bias changes from 127 to 15
    const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    result = (rounded - 0x38000000) >> 13;
  } else {
    // Subnormal: adding 0.5 lets the float adder align and round; the bits of the sum's mantissa are the answer.
    result = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000;
  }
  return uint16_t(sign | result);
#endif
}

KAON_HOST_DEVICE inline float half_value(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude > 0x7c00) return float_of(sign | 0x7f800000 | ((magnitude & 0x3ff) << 13));  // NaN
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  if (magnitude == 0x7c00) return float_of(sign | 0x7f800000);
  if (magnitude >= 0x400) return float_of(sign | ((magnitude << 13) + 0x38000000));
  return float_of(sign | bits_of(float(magnitude) * 0x1p-24f));  // subnormal: a small integer times 2^-24
#endif
}

}  // namespace ops
}  // namespace kaon
