#include "kaon/ops/nn/softmax/kernels/loss_kernel.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)  // two vector targets build in half the time
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/softmax/kernels/loss_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/math/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace {

void ScaledDifference(DType dtype, double scale, const void* a, const void* b, const void* head, void* out,
                      int64_t begin, int64_t end) {
  dispatch_float("SoftmaxOutput", dtype, [&]<class T>() {
    const T *p = static_cast<const T*>(a) + begin, *q = static_cast<const T*>(b) + begin;
    T* r = static_cast<T*>(out) + begin;
    const auto value = [=](auto d, auto x, auto y) HWY_ATTR { return hn::Mul(hn::Sub(x, y), constant(d, scale)); };
    if (head) {
      map(
          size_t(end - begin), r, [=](auto d, auto x, auto y, auto h) HWY_ATTR { return hn::Mul(value(d, x, y), h); },
          p, q, static_cast<const T*>(head) + begin);
    } else {
      map(size_t(end - begin), r, value, p, q);
    }
  });
}

void ScaledShift(DType dtype, double scale, double shift, const void* a, const void* head, void* out, int64_t begin,
                 int64_t end) {
  dispatch_float("SoftmaxOutput", dtype, [&]<class T>() {
    const T* p = static_cast<const T*>(a) + begin;
    T* r = static_cast<T*>(out) + begin;
    const auto value = [=](auto d, auto x)
                           HWY_ATTR { return hn::Mul(hn::Sub(x, constant(d, shift)), constant(d, scale)); };
    if (head) {
      map(
          size_t(end - begin), r, [=](auto d, auto x, auto h) HWY_ATTR { return hn::Mul(value(d, x), h); }, p,
          static_cast<const T*>(head) + begin);
    } else {
      map(size_t(end - begin), r, value, p);
    }
  });
}

void ScaledSign(DType dtype, double scale, const void* a, const void* b, void* out, int64_t begin, int64_t end) {
  dispatch_float("MAERegressionOutput", dtype, [&]<class T>() {
    map(
        size_t(end - begin), static_cast<T*>(out) + begin,
        [=](auto d, auto x, auto y) HWY_ATTR {
          const auto e = hn::Sub(x, y);
          const auto unit = hn::CopySign(constant(d, scale), e);
          const auto signed_scale = scale < 0 ? hn::Neg(unit) : unit;
          return hn::IfThenElse(hn::IsNaN(e), e, hn::IfThenZeroElse(hn::Eq(e, hn::Zero(d)), signed_scale));
        },
        static_cast<const T*>(a) + begin, static_cast<const T*>(b) + begin);
  });
}

int64_t CountAbove(DType dtype, double threshold, const void* a, int64_t begin, int64_t end) {
  return dispatch_float("MakeLoss", dtype, [&]<class T>() -> int64_t {
    const Lane<T> d;
    const int64_t lanes = int64_t(hn::Lanes(d));
    const T* p = static_cast<const T*>(a);
    const auto limit = constant(d, threshold);
    int64_t count = 0, i = begin;
    for (; i + lanes <= end; i += lanes) count += int64_t(hn::CountTrue(d, hn::Gt(load(d, p + i), limit)));
    for (; i < end; ++i) count += accumulate_t<T>(p[i]) > accumulate_t<T>(threshold);
    return count;
  });
}

}  // namespace
}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(ScaledDifference);
HWY_EXPORT(ScaledShift);
HWY_EXPORT(ScaledSign);
HWY_EXPORT(CountAbove);

void scaled_difference(DType dtype, double scale, const void* a, const void* b, const void* head, void* out,
                       int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(ScaledDifference)(dtype, scale, a, b, head, out, begin, end);
}
void scaled_shift(DType dtype, double scale, double shift, const void* a, const void* head, void* out, int64_t begin,
                  int64_t end) {
  HWY_DYNAMIC_DISPATCH(ScaledShift)(dtype, scale, shift, a, head, out, begin, end);
}
void scaled_sign(DType dtype, double scale, const void* a, const void* b, void* out, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(ScaledSign)(dtype, scale, a, b, out, begin, end);
}
int64_t count_above(DType dtype, double threshold, const void* a, int64_t begin, int64_t end) {
  return HWY_DYNAMIC_DISPATCH(CountAbove)(dtype, threshold, a, begin, end);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE
