#include "kaon/gluon/data/sample_random.h"

#include <algorithm>
#include <iterator>

#include "kaon/ops/math/philox.h"

namespace kaon::gluon::data {

using namespace graph;

SampleRandom::SampleRandom(uint64_t seed, uint64_t epoch, int64_t index) : index_(uint64_t(index)) {
  // a key per epoch, so that sample and block number fill Philox's counter
  const Philox4 k = random_block(seed, epoch, ~uint64_t(0));
  key_ = uint64_t(k.v[1]) << 32 | k.v[0];
}

uint32_t SampleRandom::word() {
  const int place = int(used_ % 4);
  if (place == 0) std::ranges::copy(random_block(key_, index_, used_ / 4).v, std::begin(block_));
  ++used_;
  return block_[place];
}

float SampleRandom::uniform() { return uniform_float(word()); }

int64_t SampleRandom::below(int64_t range) {
  const uint32_t high = word(), low = word();
  return int64_t(uniform_below(high, low, uint64_t(range)));
}

}  // namespace kaon::gluon::data
