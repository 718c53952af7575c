// How work is divided among a device's threads, decided on the host. A light header, for g++ too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "kaon/ops/host_device.h"

namespace kaon::cuda {

inline constexpr int64_t warp = 32;
inline constexpr int64_t block = 256;            // threads of a block by default
inline constexpr int64_t most_blocks = 1 << 20;  // of a grid whose threads loop over later elements

// How many blocks of `threads` cover n items that each thread takes `each` of. At least 1.
inline unsigned blocks_for(int64_t n, int64_t threads = block, int64_t each = 1) {
  const int64_t per_block = threads * each;
  return unsigned(std::clamp<int64_t>((n + per_block - 1) / per_block, 1, most_blocks));
}

// x / divisor for x < 2^31 by a multiplication (Granlund and Montgomery 1994). divisor: 1 to 2^31.
struct Divider {
  uint32_t divisor = 1, multiplier = 1, shift = 0;

  Divider() = default;
  explicit Divider(int64_t by) : divisor(uint32_t(by)) {
    while (int64_t(1) << shift < by) ++shift;
    multiplier = uint32_t(((uint64_t(1) << 32) * ((uint64_t(1) << shift) - divisor)) / divisor + 1);
  }
  KAON_HOST_DEVICE uint32_t operator()(uint32_t x) const {
    return (uint32_t((uint64_t(x) * multiplier) >> 32) + x) >> shift;
  }
};

// The same for any number that is not negative; nearly all are small. A divisor of 0, from an empty array, counts as 1.
class FastDivide {
 public:
  FastDivide() = default;
  explicit FastDivide(int64_t divisor)
      : divisor_(std::max<int64_t>(1, divisor)), small_(std::min<int64_t>(divisor_, int64_t(1) << 31)) {}
  KAON_HOST_DEVICE int64_t divisor() const { return divisor_; }
  KAON_HOST_DEVICE int64_t quotient(int64_t n) const {
    return n < int64_t(1) << 31 ? small_(uint32_t(n)) : n / divisor_;
  }
  // The quotient; n becomes the remainder.
  KAON_HOST_DEVICE int64_t split(int64_t& n) const {
    const int64_t q = quotient(n);
    n -= q * divisor_;
    return q;
  }

 private:
  int64_t divisor_ = 1;
  Divider small_;
};

// The largest power of two up to 16 of bytes that elements of `width` bytes can be moved in: it divides these numbers
// of elements and these addresses.
inline size_t widest(size_t width, std::initializer_list<int64_t> elements, std::initializer_list<const void*> data) {
  uint64_t all = 16;
  for (int64_t n : elements) all |= uint64_t(n) * width;
  for (const void* p : data) all |= reinterpret_cast<uintptr_t>(p);
  return size_t(all & -all);
}

}  // namespace kaon::cuda
