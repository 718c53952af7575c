#include "kaon/ops/math/runs.h"

#include <cstring>

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/math/runs.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// Eight vectors are loaded before the first of them is stored: a load just behind a store at the same place of another
// page would wait for it. Half vectors of AVX-512: measured, they lose nothing and cross fewer cache lines.
const hn::CappedTag<uint8_t, 32> kBytes;
constexpr size_t kVectors = 8;

}  // namespace

// At least eight vectors.
void CopyRun(uint8_t* HWY_RESTRICT to, const uint8_t* HWY_RESTRICT from, size_t bytes) {
  const size_t lanes = hn::Lanes(kBytes), block = kVectors * lanes;
  // up to the first whole vector of the destination
  const size_t head = (0 - reinterpret_cast<uintptr_t>(to)) % lanes;
  const auto first = hn::LoadU(kBytes, from);
  hn::StoreU(first, kBytes, to);
  size_t i = head;
  for (; i + block <= bytes; i += block) {
    const auto a = hn::LoadU(kBytes, from + i), b = hn::LoadU(kBytes, from + i + lanes),
               c = hn::LoadU(kBytes, from + i + 2 * lanes), d = hn::LoadU(kBytes, from + i + 3 * lanes),
               e = hn::LoadU(kBytes, from + i + 4 * lanes), f = hn::LoadU(kBytes, from + i + 5 * lanes),
               g = hn::LoadU(kBytes, from + i + 6 * lanes), h = hn::LoadU(kBytes, from + i + 7 * lanes);
    hn::Store(a, kBytes, to + i), hn::Store(b, kBytes, to + i + lanes);
    hn::Store(c, kBytes, to + i + 2 * lanes), hn::Store(d, kBytes, to + i + 3 * lanes);
    hn::Store(e, kBytes, to + i + 4 * lanes), hn::Store(f, kBytes, to + i + 5 * lanes);
    hn::Store(g, kBytes, to + i + 6 * lanes), hn::Store(h, kBytes, to + i + 7 * lanes);
  }
  for (; i + lanes <= bytes; i += lanes) hn::Store(hn::LoadU(kBytes, from + i), kBytes, to + i);
  hn::StoreU(hn::LoadU(kBytes, from + bytes - lanes), kBytes, to + bytes - lanes);
}

template <class T>
void ReverseRun(T* HWY_RESTRICT to, const T* HWY_RESTRICT last, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const T* const from = last - ptrdiff_t(i + lanes) + 1;
    const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from - lanes), c = hn::LoadU(d, from - 2 * lanes),
               e = hn::LoadU(d, from - 3 * lanes);
    hn::StoreU(hn::Reverse(d, a), d, to + i), hn::StoreU(hn::Reverse(d, b), d, to + i + lanes);
    hn::StoreU(hn::Reverse(d, c), d, to + i + 2 * lanes), hn::StoreU(hn::Reverse(d, e), d, to + i + 3 * lanes);
  }
  for (; i < n; ++i) to[i] = last[-ptrdiff_t(i)];
}
void ReverseRun8(uint8_t* to, const uint8_t* last, size_t n) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<uint8_t, 16> d;
  alignas(16) static constexpr uint8_t kPlaces[] = {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  const auto places = hn::Load(d, kPlaces);
  for (; i + 16 <= n; i += 16)
    hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, last - ptrdiff_t(i) - 15), places), d, to + i);
#endif
  for (; i < n; ++i) to[i] = last[-ptrdiff_t(i)];
}
void ReverseRunOf(void* to, const void* last, size_t n, size_t width) {
  const auto reverse = [&]<class T>(T) { ReverseRun(static_cast<T*>(to), static_cast<const T*>(last), n); };
  switch (width) {
    case 8: return reverse(uint64_t());
    case 4: return reverse(uint32_t());
    case 2: return reverse(uint16_t());
    default: return ReverseRun8(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(last), n);
  }
}

// Words of eight bytes, which need not be aligned.
void FillRun(uint8_t* to, uint64_t word, size_t words) {
  const size_t bytes = 8 * words;
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto v = hn::BitCast(d, hn::Set(hn::Repartition<uint64_t, decltype(d)>(), word));
  for (; i + lanes <= bytes; i += lanes) hn::StoreU(v, d, to + i);
#endif
  for (; i < bytes; i += 8) std::memcpy(to + i, &word, 8);
}

void AddRuns(float* to, const float* a, const float* b, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, to + i);
  for (; i < n; ++i) to[i] = a[i] + b[i];
}

template <class T>
void SplitTriples(void* const* to, const void* from, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  T *const a = static_cast<T*>(to[0]), *const b = static_cast<T*>(to[1]), *const c = static_cast<T*>(to[2]);
  const T* const x = static_cast<const T*>(from);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<decltype(d)> u, v, w;
    hn::LoadInterleaved3(d, x + 3 * i, u, v, w);
    hn::StoreU(u, d, a + i), hn::StoreU(v, d, b + i), hn::StoreU(w, d, c + i);
  }
  for (; i < n; ++i) a[i] = x[3 * i], b[i] = x[3 * i + 1], c[i] = x[3 * i + 2];
}

template <class T>
void JoinTriples(void* to, const void* const* from, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const T *const a = static_cast<const T*>(from[0]), *const b = static_cast<const T*>(from[1]),
                 *const c = static_cast<const T*>(from[2]);
  T* const y = static_cast<T*>(to);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreInterleaved3(hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, c + i), d, y + 3 * i);
  }
  for (; i < n; ++i) y[3 * i] = a[i], y[3 * i + 1] = b[i], y[3 * i + 2] = c[i];
}

// One exported function for all widths.
void SplitTriplesOf(void* const* to, const void* from, size_t n, size_t width) {
  switch (width) {
    case 8: return SplitTriples<uint64_t>(to, from, n);
    case 4: return SplitTriples<uint32_t>(to, from, n);
    case 2: return SplitTriples<uint16_t>(to, from, n);
    default: return SplitTriples<uint8_t>(to, from, n);
  }
}
void JoinTriplesOf(void* to, const void* const* from, size_t n, size_t width) {
  switch (width) {
    case 8: return JoinTriples<uint64_t>(to, from, n);
    case 4: return JoinTriples<uint32_t>(to, from, n);
    case 2: return JoinTriples<uint16_t>(to, from, n);
    default: return JoinTriples<uint8_t>(to, from, n);
  }
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(CopyRun);
HWY_EXPORT(ReverseRunOf);
HWY_EXPORT(FillRun);
HWY_EXPORT(AddRuns);
HWY_EXPORT(SplitTriplesOf);
HWY_EXPORT(JoinTriplesOf);

void copy_run(void* to, const void* from, size_t bytes) {
  constexpr size_t least = 512;  // memcpy has vectors for shorter ones
  if (bytes < least) {
    std::memcpy(to, from, bytes);
  } else {
    HWY_DYNAMIC_DISPATCH(CopyRun)(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), bytes);
  }
}

void reverse_run(void* to, const void* last, size_t n, size_t width) {
  HWY_DYNAMIC_DISPATCH(ReverseRunOf)(to, last, n, width);
}

void fill_run(void* to, uint64_t element, size_t n, size_t width) {
  if (width < 8) element &= (uint64_t(1) << 8 * width) - 1;
  for (size_t w = width; w < 8; w *= 2) element |= element << 8 * w;
  const size_t words = n * width / 8, rest = n * width % 8;
  HWY_DYNAMIC_DISPATCH(FillRun)(static_cast<uint8_t*>(to), element, words);
  if (rest > 0) std::memcpy(static_cast<uint8_t*>(to) + 8 * words, &element, rest);
}

void add_runs(float* to, const float* a, const float* b, size_t n) { HWY_DYNAMIC_DISPATCH(AddRuns)(to, a, b, n); }

void split_triples(void* const (&to)[3], const void* from, size_t n, size_t width) {
  HWY_DYNAMIC_DISPATCH(SplitTriplesOf)(to, from, n, width);
}

void join_triples(void* to, const void* const (&from)[3], size_t n, size_t width) {
  HWY_DYNAMIC_DISPATCH(JoinTriplesOf)(to, from, n, width);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE
