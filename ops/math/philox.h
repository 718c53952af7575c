// Philox4x32-10, the counter-based random number generator: four 32-bit words are a function of a key and a
// counter. Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// A light header: CPU kernels and CUDA kernels share it.
#pragma once

#include <cstdint>

#include "kaon/ops/host_device.h"

namespace kaon::ops {

struct Philox4 {
  uint32_t v[4];
};

struct PhiloxConstants {
  static constexpr uint32_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  static constexpr uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  static constexpr int rounds = 10;
};

KAON_HOST_DEVICE inline Philox4 philox4x32(Philox4 counter, uint32_t key0, uint32_t key1) {
  using K = PhiloxConstants;
  for (int round = 0; round < K::rounds; ++round) {
    const uint64_t a = uint64_t(K::multiplier0) * counter.v[0];
    const uint64_t b = uint64_t(K::multiplier1) * counter.v[2];
    counter = Philox4{
        {uint32_t(b >> 32) ^ counter.v[1] ^ key0, uint32_t(b), uint32_t(a >> 32) ^ counter.v[3] ^ key1, uint32_t(a)}};
    key0 += K::weyl0;
    key1 += K::weyl1;
  }
  return counter;
}

// Words 4 * block ... 4 * block + 3 of the draw (seed, offset). Draws with other offsets share no block.
KAON_HOST_DEVICE inline Philox4 random_block(uint64_t seed, uint64_t offset, uint64_t block) {
  return philox4x32({{uint32_t(block), uint32_t(block >> 32), uint32_t(offset), uint32_t(offset >> 32)}},
                    uint32_t(seed), uint32_t(seed >> 32));
}

// Uniform in [0, 1): the upper 24 bits, or 53 of two words.
KAON_HOST_DEVICE inline float uniform_float(uint32_t word) { return float(word >> 8) * 0x1p-24f; }
KAON_HOST_DEVICE inline double uniform_double(uint32_t high, uint32_t low) {
  return double((uint64_t(high) << 32 | low) >> 11) * 0x1p-53;
}

// Uniform in [0, range): the upper half of a product; the bias is below range / 2^32 (2^64 for two words).
KAON_HOST_DEVICE inline uint32_t uniform_below(uint32_t word, uint32_t range) {
  return uint32_t((uint64_t(word) * range) >> 32);
}
KAON_HOST_DEVICE inline uint64_t uniform_below(uint32_t high, uint32_t low, uint64_t range) {
  // the upper 64 bits of (high, low) * range, in 32-bit parts
  const uint64_t r0 = uint32_t(range), r1 = range >> 32;
  const uint64_t middle = high * r0 + ((low * r0) >> 32);
  const uint64_t other = low * r1 + uint32_t(middle);
  return high * r1 + (middle >> 32) + (other >> 32);
}

}  // namespace kaon::ops
