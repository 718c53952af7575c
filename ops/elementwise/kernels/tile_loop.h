// The loop of a tile function: float32 vectors of one instruction set, with an exact tail. Included inside
// foreach_target files, like math.h.

#if defined(KAON_OPS_ELEMENTWISE_TILE_LOOP_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_ELEMENTWISE_TILE_LOOP_H_
#undef KAON_OPS_ELEMENTWISE_TILE_LOOP_H_
#else
#define KAON_OPS_ELEMENTWISE_TILE_LOOP_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::math::HWY_NAMESPACE {

template <int inputs, class D, class F>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> apply_at(D d, const float* HWY_RESTRICT const* p, size_t i, const F& f) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (inputs == 1) {
    return f(d, hn::LoadU(d, p[0] + i));
  } else if constexpr (inputs == 2) {
    return f(d, hn::LoadU(d, p[0] + i), hn::LoadU(d, p[1] + i));
  } else {
    return f(d, hn::LoadU(d, p[0] + i), hn::LoadU(d, p[1] + i), hn::LoadU(d, p[2] + i));
  }
}

// out[i] = f(d, in[0][i], ...). The last, overlapping vector is computed before the first store, so that out
// may be an input.
template <int inputs, class F>
HWY_INLINE void tile_loop(const float* const* in, float* out, size_t n, const F& f) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float padded[inputs + 1][hn::MaxLanes(d)];
  const float* p[inputs];
  for (int k = 0; k < inputs; ++k) p[k] = in[k];
  float* to = out;
  const size_t count = n;
  if (n < lanes) {
    if (n == 0) return;
    for (int k = 0; k < inputs; ++k) {
      hn::Store(hn::Zero(d), d, padded[k]);
      std::memcpy(padded[k], in[k], n * sizeof(float));
      p[k] = padded[k];
    }
    to = padded[inputs];
    n = lanes;
  }
  const auto last = apply_at<inputs>(d, p, n - lanes, f);
  size_t i = 0;
  // a row may begin anywhere; vectors that cross cache lines take twice as long to store
  const size_t head = (0 - reinterpret_cast<uintptr_t>(to) / sizeof(float)) % lanes;
  bool in_place = false;
  for (int k = 0; k < inputs; ++k) in_place = in_place || p[k] == to;
  if (head > 0 && n >= 8 * lanes && !in_place) {
    hn::StoreU(apply_at<inputs>(d, p, 0, f), d, to);
    i = head;
  }
  for (; i + lanes < n; i += lanes) hn::StoreU(apply_at<inputs>(d, p, i, f), d, to + i);
  hn::StoreU(last, d, to + n - lanes);
  if (count < lanes) std::memcpy(out, to, count * sizeof(float));
}

}  // namespace kaon::ops::math::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
