#include "kaon/ops/random/kernels/random_kernel.h"

#include <algorithm>
#include <cmath>

#include "kaon/ops/random/kernels/random_math.h"
#include "kaon/ops/random/kernels/random_words.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)  // two vector targets build in half the time
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/random/kernels/random_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/math/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace {

// Draws the words of `elements` elements from buffer `buffer` on, and those that a vector loop may read past them.
template <int words_per_element>
void draw(RandomKey key, int64_t buffer, int64_t elements, uint32_t* words) {
  constexpr int64_t step = 64;
  const int64_t count = (elements * words_per_element + step - 1) / step * step;
  random_words(key, uint64_t(buffer * random_chunk * words_per_element / 4), count / 4, words);
}

// Calls f(first element, count, buffer) for each buffer.
template <class F>
HWY_INLINE void for_chunks(int64_t n, int64_t begin, int64_t end, F f) {
  for (int64_t buffer = begin; buffer < end; ++buffer) {
    const int64_t at = buffer * random_chunk;
    f(at, std::min(random_chunk, n - at), buffer);
  }
}

// In [0, 1); of 16-bit floats T in (0, 1].
template <class T>
void uniform_numbers(const uint32_t* words, float* out, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<uint32_t> word;
  const hn::ScalableTag<int32_t> integer;
  const auto unit_scale = hn::Set(d, 0x1p-24f);
  const auto offset = hn::Set(word, uint32_t(uniform_offset<T>));
  for (int64_t i = 0; i < count; i += int64_t(hn::Lanes(d))) {
    const auto w = hn::Add(hn::ShiftRight<8>(hn::Load(word, words + i)), offset);
    hn::Store(hn::Mul(hn::ConvertTo(d, hn::BitCast(integer, w)), unit_scale), d, out + i);
  }
}
template <class T>
void uniform_numbers(const uint32_t* words, double* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = uniform_double(words[2 * i], words[2 * i + 1]);
}

template <class T>
void uniform(RandomKey key, double low, double high, T* out, int64_t n, int64_t begin, int64_t end) {
  using A = accumulate_t<T>;
  const Lane<T> d;
  const auto limit = hn::Set(d, uniform_limit<T>(low, high)), start = hn::Set(d, A(low)),
             width = hn::Set(d, A(high - low));
  for_chunks(n, begin, end, [&](int64_t at, int64_t count, int64_t buffer) HWY_ATTR {
    HWY_ALIGN uint32_t words[random_chunk * sizeof(A) / 4];
    HWY_ALIGN A unit[random_chunk];
    draw<sizeof(A) / 4>(key, buffer, count, words);
    uniform_numbers<T>(words, unit, count);
    map(
        size_t(count), out + at, [=](auto, auto u) HWY_ATTR { return hn::Min(hn::MulAdd(u, width, start), limit); },
        unit);
  });
}

// Elements 2j and 2j + 1 are r cos(2 pi u) and r sin(2 pi u) with r = sqrt(-2 log v), u and v from words 2j + 1 and 2j
// (float64: from words 4j + 2, 4j + 3 and 4j, 4j + 1).
void normal_pairs(const uint32_t* words, float* out, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<uint32_t> word;
  const hn::ScalableTag<int32_t> integer;
  const int64_t lanes = int64_t(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += 2 * lanes) {
    hn::Vec<decltype(word)> a, b;
    hn::LoadInterleaved2(word, words + i, a, b);
    // v in (0, 1]: 31 bits, so that the tail reaches 6.6
    const auto v = hn::MulAdd(hn::ConvertTo(d, hn::BitCast(integer, hn::ShiftRight<1>(a))), hn::Set(d, 0x1p-31f),
                              hn::Set(d, 0x1p-32f));
    const auto angle = hn::Mul(hn::ConvertTo(d, hn::BitCast(integer, hn::ShiftRight<8>(b))),
                               hn::Set(d, 6.28318530717958647692f * 0x1p-24f));
    const auto r = hn::Sqrt(hn::Mul(hn::Set(d, -2.0f), hn::Min(hn::Log(d, v), hn::Zero(d))));
    hn::StoreInterleaved2(hn::Mul(r, hn::Cos(d, angle)), hn::Mul(r, hn::Sin(d, angle)), d, out + i);
  }
}
void normal_pairs(const uint32_t* words, double* out, int64_t count) {
  for (int64_t i = 0; i < count; i += 2) normal_pair(words + 2 * i, out[i], out[i + 1]);
}

// As exponential_number, of one word each (float64: two).
void exponential_numbers(const uint32_t* words, float* out, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<uint32_t> word;
  const hn::ScalableTag<int32_t> integer;
  const auto half = hn::Set(d, 0.5f), one = hn::Set(d, 1.0f), unit = hn::Set(d, 0x1p-31f),
             middle = hn::Set(d, 0x1p-32f);
  const auto highest = hn::Set(integer, 0x7fffffff);
  for (int64_t i = 0; i < count; i += int64_t(hn::Lanes(d))) {
    const auto w = hn::BitCast(integer, hn::ShiftRight<1>(hn::Load(word, words + i)));
    const auto v = hn::MulAdd(hn::ConvertTo(d, w), unit, middle);
    const auto rest = hn::MulAdd(hn::ConvertTo(d, hn::Sub(highest, w)), unit, middle);
    const auto lost = hn::IfThenElseZero(hn::Gt(v, half), hn::Div(hn::Sub(rest, hn::Sub(one, v)), v));
    hn::Store(hn::Sub(lost, hn::Log(d, v)), d, out + i);
  }
}
void exponential_numbers(const uint32_t* words, double* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = exponential_number(words[2 * i], words[2 * i + 1]);
}

template <class T>
void normal(RandomKey key, double loc, double scale, T* out, int64_t n, int64_t begin, int64_t end) {
  using A = accumulate_t<T>;
  const Lane<T> d;
  const auto mean = hn::Set(d, A(loc)), deviation = hn::Set(d, A(scale));
  for_chunks(n, begin, end, [&](int64_t at, int64_t count, int64_t buffer) HWY_ATTR {
    HWY_ALIGN uint32_t words[random_chunk * sizeof(A) / 4];
    HWY_ALIGN A z[random_chunk];
    draw<sizeof(A) / 4>(key, buffer, count, words);
    normal_pairs(words, z, count);
    map(
        size_t(count), out + at, [=](auto, auto v) HWY_ATTR { return hn::MulAdd(v, deviation, mean); }, z);
  });
}

// Chunk `buffer` of standard numbers for results of type T. The arrays have room for a whole chunk.
template <class T>
void standard(Distribution distribution, RandomKey key, accumulate_t<T>* out, int64_t count, int64_t buffer) {
  constexpr int per_element = sizeof(*out) / 4;
  HWY_ALIGN uint32_t words[random_chunk * per_element];
  draw<per_element>(key, buffer, count, words);
  switch (distribution) {
    case Distribution::uniform: return uniform_numbers<T>(words, out, count);
    case Distribution::normal: return normal_pairs(words, out, count);
    default: return exponential_numbers(words, out, count);
  }
}

template <class T>
void dropout(RandomKey key, double p, const T* x, T* y, T* mask, int64_t n, int64_t begin, int64_t end) {
  using A = accumulate_t<T>;
  const uint32_t threshold = dropout_threshold(p);
  const A kept = dropout_factor<A>(p);
  for_chunks(n, begin, end, [&](int64_t at, int64_t count, int64_t buffer) HWY_ATTR {
    HWY_ALIGN uint32_t words[random_chunk];
    HWY_ALIGN A factor[random_chunk];
    draw<1>(key, buffer, count, words);
    if constexpr (sizeof(A) == 4) {
      const hn::ScalableTag<uint32_t> word;
      const hn::ScalableTag<float> d;
      const auto limit = hn::Set(word, threshold);
      for (int64_t i = 0; i < count; i += int64_t(hn::Lanes(word))) {
        const auto drop = hn::RebindMask(d, hn::Gt(limit, hn::Load(word, words + i)));
        hn::Store(hn::IfThenZeroElse(drop, hn::Set(d, kept)), d, factor + i);
      }
    } else {
      for (int64_t i = 0; i < count; ++i) factor[i] = words[i] < threshold ? A(0) : kept;
    }
    if (mask)
      map(
          size_t(count), mask + at, [](auto, auto f) HWY_ATTR { return f; }, factor);
    if (x)
      map(
          size_t(count), y + at, [](auto, auto v, auto f) HWY_ATTR { return hn::Mul(v, f); }, x + at, factor);
  });
}

void Uniform(RandomKey key, double low, double high, DType dtype, void* out, int64_t n, int64_t begin, int64_t end) {
  dispatch_float("_random_uniform", dtype,
                 [&]<class T>() { uniform(key, low, high, static_cast<T*>(out), n, begin, end); });
}
void Normal(RandomKey key, double loc, double scale, DType dtype, void* out, int64_t n, int64_t begin, int64_t end) {
  dispatch_float("_random_normal", dtype,
                 [&]<class T>() { normal(key, loc, scale, static_cast<T*>(out), n, begin, end); });
}
void Standard(Distribution distribution, RandomKey key, DType dtype, void* out, int64_t count, int64_t chunk) {
  dispatch_float("_sample", dtype,
                 [&]<class T>() { standard<T>(distribution, key, static_cast<accumulate_t<T>*>(out), count, chunk); });
}
void Dropout(RandomKey key, double p, DType dtype, const void* x, void* y, void* mask, int64_t n, int64_t begin,
             int64_t end) {
  dispatch_float("Dropout", dtype, [&]<class T>() {
    dropout(key, p, static_cast<const T*>(x), static_cast<T*>(y), static_cast<T*>(mask), n, begin, end);
  });
}
void MultiplyRow(DType dtype, const void* x, const void* mask, bool one, void* y, int64_t n) {
  dispatch_float("Dropout", dtype, [&]<class T>() {
    const T *from = static_cast<const T*>(x), *m = static_cast<const T*>(mask);
    if (one) {
      const accumulate_t<T> factor = accumulate_t<T>(*m);
      map(
          size_t(n), static_cast<T*>(y), [=](auto d, auto v) HWY_ATTR { return hn::Mul(v, hn::Set(d, factor)); }, from);
    } else {
      map(
          size_t(n), static_cast<T*>(y), [](auto, auto v, auto f) HWY_ATTR { return hn::Mul(v, f); }, from, m);
    }
  });
}

}  // namespace
}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(Uniform);
HWY_EXPORT(Normal);
HWY_EXPORT(Standard);
HWY_EXPORT(Dropout);
HWY_EXPORT(MultiplyRow);

void uniform_chunks(RandomKey key, double low, double high, DType dtype, void* out, int64_t n, int64_t begin,
                    int64_t end) {
  HWY_DYNAMIC_DISPATCH(Uniform)(key, low, high, dtype, out, n, begin, end);
}
void normal_chunks(RandomKey key, double loc, double scale, DType dtype, void* out, int64_t n, int64_t begin,
                   int64_t end) {
  HWY_DYNAMIC_DISPATCH(Normal)(key, loc, scale, dtype, out, n, begin, end);
}
void standard_numbers(Distribution distribution, RandomKey key, DType dtype, void* out, int64_t count, int64_t chunk) {
  HWY_DYNAMIC_DISPATCH(Standard)(distribution, key, dtype, out, count, chunk);
}
void dropout_chunks(RandomKey key, double p, DType dtype, const void* x, void* y, void* mask, int64_t n, int64_t begin,
                    int64_t end) {
  HWY_DYNAMIC_DISPATCH(Dropout)(key, p, dtype, x, y, mask, n, begin, end);
}
void multiply_row(DType dtype, const void* x, const void* mask, bool one, void* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(MultiplyRow)(dtype, x, mask, one, y, n);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE
