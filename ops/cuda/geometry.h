// How work is divided among a device's threads, decided on the host. A light header, for g++ too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "kaon/ops/host_device.h"

namespace kaon::cuda {

inline constexpr int64_t warp = 32;
inline constexpr int64_t block = 256;            // threads, where nothing speaks for another number
inline constexpr int64_t most_blocks = 1 << 20;  // of a grid whose threads go on with later elements

// How many blocks of `threads` cover n items that each thread takes `each` of. At least 1.
inline unsigned blocks_for(int64_t n, int64_t threads = block, int64_t each = 1) {
  const int64_t per_block = threads * each;
  return unsigned(std::clamp<int64_t>((n + per_block - 1) / per_block, 1, most_blocks));
}

// Division by a number known at the launch: a multiplication and a shift for numbers below 2^31, which is nearly all,
// a true division above. Numbers are not negative; by 0, which sizes of empty arrays are, is by 1.
class FastDivide {
 public:
  FastDivide() = default;
  explicit FastDivide(int64_t divisor) : divisor_(std::max<int64_t>(1, divisor)) {
    if (divisor_ > most) {
      multiplier_ = 0, shift_ = 31;  // smaller numbers have the quotient 0
      return;
    }
    while ((int64_t(1) << shift_) < divisor_) ++shift_;
    multiplier_ = uint32_t((uint64_t((int64_t(1) << shift_) - divisor_) << 32) / uint64_t(divisor_) + 1);
  }
  HOST_DEVICE int64_t divisor() const { return divisor_; }
  HOST_DEVICE int64_t quotient(int64_t n) const {
    if (n > most) return n / divisor_;
    return (uint32_t((uint64_t(uint32_t(n)) * multiplier_) >> 32) + uint32_t(n)) >> shift_;
  }
  // The quotient; n becomes what is left.
  HOST_DEVICE int64_t split(int64_t& n) const {
    const int64_t q = quotient(n);
    n -= q * divisor_;
    return q;
  }

 private:
  static constexpr int64_t most = 0x7fffffff;
  int64_t divisor_ = 1;
  uint32_t multiplier_ = 1;
  int shift_ = 0;
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
