#include "kaon/ops/random/kernels/random_words.h"

#include <cstring>

#include "kaon/ops/math/philox.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)  // two vector targets build in half the time
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/random/kernels/random_words.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// One block per 64-bit lane. A word is in the lower half of its lane; the upper halves are undefined until the end,
// since the multiplication does not read them.
void RandomWords(RandomKey key, uint64_t first, int64_t blocks, uint32_t* out) {
  int64_t b = 0;
#if HWY_TARGET != HWY_SCALAR
  using K = PhiloxConstants;
  const hn::ScalableTag<uint64_t> d;
  const hn::RepartitionToNarrow<decltype(d)> word;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto m0 = hn::Set(word, K::multiplier0), m1 = hn::Set(word, K::multiplier1);
  const auto low = hn::Set(d, 0xffffffffu);
  for (; b + lanes <= blocks; b += lanes) {
    auto c0 = hn::Iota(d, first + uint64_t(b));
    auto c1 = hn::ShiftRight<32>(c0);
    auto c2 = hn::Set(d, key.offset);
    auto c3 = hn::ShiftRight<32>(c2);
    uint32_t k0 = uint32_t(key.seed), k1 = uint32_t(key.seed >> 32);
    for (int round = 0; round < K::rounds; ++round) {
      const auto p = hn::MulEven(hn::BitCast(word, c0), m0), q = hn::MulEven(hn::BitCast(word, c2), m1);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(q), c1), hn::Set(d, k0));
      c1 = q;
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p), c3), hn::Set(d, k1));
      c3 = p;
      k0 += K::weyl0;
      k1 += K::weyl1;
    }
    const auto first_two = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
    const auto last_two = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(first_two, last_two, d, reinterpret_cast<uint64_t*>(out + 4 * b));
  }
#endif
  for (; b < blocks; ++b) {
    const Philox4 words = random_block(key.seed, key.offset, first + uint64_t(b));
    memcpy(out + 4 * b, words.v, sizeof(words.v));
  }
}

// As uniform_below(words[2 i], words[2 i + 1], range).
void WordsBelow(const uint32_t* words, int64_t n, uint32_t range, uint32_t* out) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint64_t> d;
  const hn::RepartitionToNarrow<decltype(d)> word;
  const hn::Rebind<uint32_t, decltype(d)> narrow;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto factor = hn::Set(word, range);
  for (; i + lanes <= n; i += lanes) {
    // the upper word of a number is in the lower half of its lane
    const auto pair = hn::BitCast(d, hn::LoadU(word, words + 2 * i)), low = hn::ShiftRight<32>(pair);
    const auto lower = hn::ShiftRight<32>(hn::MulEven(hn::BitCast(word, low), factor));
    const auto product = hn::Add(hn::MulEven(hn::BitCast(word, pair), factor), lower);
    hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<32>(product)), narrow, out + i);
  }
#endif
  for (; i < n; ++i) out[i] = uint32_t(uniform_below(words[2 * i], words[2 * i + 1], uint64_t(range)));
}

}  // namespace
}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(RandomWords);
HWY_EXPORT(WordsBelow);

void random_words(RandomKey key, uint64_t first_block, int64_t blocks, uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(RandomWords)(key, first_block, blocks, out);
}

void words_below(const uint32_t* words, int64_t n, uint32_t range, uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(WordsBelow)(words, n, range, out);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE
