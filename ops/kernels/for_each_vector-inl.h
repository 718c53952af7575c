// The loop over the vectors of a row, for kernels on Highway.

// Highway compiles a file once per instruction set; this toggle lets the header be read each time.
#if defined(KAON_OPS_FOR_EACH_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAON_OPS_FOR_EACH_VECTOR_INL_H_
#undef KAON_OPS_FOR_EACH_VECTOR_INL_H_
#else
#define KAON_OPS_FOR_EACH_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {

// Calls f(tag, i) for vectors of T that cover [0, n): whole, then of 16 bytes, then single.
template <class T, class F>
HWY_INLINE void for_each_vector(int64_t n, F f) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 16 / sizeof(T)> d4;
  const hn::CappedTag<T, 1> d1;
  int64_t i = 0;
  for (; i + int64_t(hn::Lanes(d)) <= n; i += int64_t(hn::Lanes(d))) f(d, i);
  for (; i + int64_t(hn::Lanes(d4)) <= n; i += int64_t(hn::Lanes(d4))) f(d4, i);
  for (; i < n; ++i) f(d1, i);
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
