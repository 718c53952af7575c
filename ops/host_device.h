// KAON_HOST_DEVICE: marks element functions that CPU loops and CUDA kernels share. And replacements for C++'s <bit>,
// whose functions CUDA's compiler takes for host code.
#pragma once

#include <cstdint>
#include <cstring>

#include "kaon/engine/api.h"

#ifdef __CUDACC__
#define KAON_HOST_DEVICE __host__ __device__
#else
#define KAON_HOST_DEVICE
#endif

namespace KAON_API kaon {
namespace ops {

KAON_HOST_DEVICE inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}
KAON_HOST_DEVICE inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

}  // namespace ops
}  // namespace kaon
