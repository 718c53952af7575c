// SampleRandom: the random numbers of one sample, for augmentation.
#pragma once

#include <cstdint>

#include "kaon/ops/math/philox.h"

namespace kaon::gluon::data {

// A stream of numbers that depends on (seed, epoch, index of the sample) only: not on the thread that draws, nor on the
// draws for other samples. Thread safety: unsafe; each sample has its own.
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, uint64_t epoch, int64_t index) : index_(uint64_t(index)) {
    // a key per epoch, so that sample and block number fill Philox's counter
    const Philox4 k = random_block(seed, epoch, ~uint64_t(0));
    key_ = uint64_t(k.v[1]) << 32 | k.v[0];
  }

  uint32_t word() {  // 32 random bits
    const int place = int(used_ % 4);
    if (place == 0) block_ = random_block(key_, index_, used_ / 4);
    ++used_;
    return block_.v[place];
  }
  float uniform() { return uniform_float(word()); }              // in [0, 1)
  bool chance(double p) { return double(word()) < p * 0x1p32; }  // true with probability p
  // Uniform in [0, range).
  int64_t below(int64_t range) {
    const uint32_t high = word(), low = word();
    return int64_t(uniform_below(high, low, uint64_t(range)));
  }

 private:
  uint64_t key_ = 0;
  uint64_t index_;
  uint64_t used_ = 0;
  Philox4 block_{};
};

}  // namespace kaon::gluon::data
