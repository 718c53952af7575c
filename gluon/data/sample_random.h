// SampleRandom: the random numbers of one sample, for augmentation.
#pragma once

#include <cstdint>

#include "kaon/engine/api.h"

namespace KAON_API kaon {
namespace gluon::data {

// A stream of numbers that depends on (seed, epoch, index of the sample) only: not on the thread that draws, nor on the
// draws for other samples. Thread safety: unsafe; each sample has its own.
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, uint64_t epoch, int64_t index);

  uint32_t word();                                               // 32 random bits
  float uniform();                                               // in [0, 1)
  bool chance(double p) { return double(word()) < p * 0x1p32; }  // true with probability p
  int64_t below(int64_t range);                                  // uniform in [0, range)

 private:
  uint64_t key_ = 0;
  uint64_t index_;
  uint64_t used_ = 0;
  uint32_t block_[4]{};
};

}  // namespace gluon::data
}  // namespace kaon
