#include "kaon/ops/nn/pooling/kernels/pool_places.h"

#include <algorithm>
#include <limits>

#include "kaon/ops/kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/pooling/kernels/pool_places.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/kernels/for_each_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements i * step of a row, for a vector of i.
template <class D>
HWY_INLINE hn::Vec<D> load_steps(D d, const hn::TFromD<D>* from, int64_t step) {
  using Index = hwy::MakeSigned<hn::TFromD<D>>;
  if (step == 1) return hn::LoadU(d, from);
  const hn::RebindToSigned<D> di;
  return hn::GatherIndex(d, from, hn::Mul(hn::Iota(di, 0), hn::Set(di, Index(step))));
}

// One tap of the windows of a line: n results, `tap` numbers the taps in row-major order. The first NaN wins.
template <class T>
void look_at(const T* from, int64_t step, hwy::MakeSigned<T> tap, int64_t n, T* best, hwy::MakeSigned<T>* taps) {
  for_each_vector<T>(n, [&](auto d, int64_t i) {
    const hn::RebindToSigned<decltype(d)> di;
    const auto v = load_steps(d, from + i * step, step), most = hn::LoadU(d, best + i);
    const auto wins = hn::Or(hn::Gt(v, most), hn::AndNot(hn::IsNaN(most), hn::IsNaN(v)));
    hn::StoreU(hn::IfThenElse(wins, v, most), d, best + i);
    hn::StoreU(hn::IfThenElse(hn::RebindMask(di, wins), hn::Set(di, tap), hn::LoadU(di, taps + i)), di, taps + i);
  });
}

void LookFloat(const float* from, int64_t step, int32_t tap, int64_t n, float* best, int32_t* taps) {
  look_at(from, step, tap, n, best, taps);
}
void LookDouble(const double* from, int64_t step, int64_t tap, int64_t n, double* best, int64_t* taps) {
  look_at(from, step, tap, n, best, taps);
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(LookFloat);
HWY_EXPORT(LookDouble);

namespace {

void look_at(const float* from, int64_t step, int32_t tap, int64_t n, float* best, int32_t* taps) {
  HWY_DYNAMIC_DISPATCH(LookFloat)(from, step, tap, n, best, taps);
}
void look_at(const double* from, int64_t step, int64_t tap, int64_t n, double* best, int64_t* taps) {
  HWY_DYNAMIC_DISPATCH(LookDouble)(from, step, tap, n, best, taps);
}

// The taps of a window, in row-major order: their places from that of the first one.
void fill_offsets(const PoolSizes& s, int64_t* offsets) {
  for (int64_t z = 0; z < s.kernel[0]; ++z) {
    for (int64_t y = 0; y < s.kernel[1]; ++y) {
      for (int64_t x = 0; x < s.kernel[2]; ++x) {
        *offsets++ = (z * s.dilation[0] * s.in[1] + y * s.dilation[1]) * s.in[2] + x * s.dilation[2];
      }
    }
  }
}

// The first element of a window, -1 for none.
int64_t first_place(const PoolSizes& s, const PoolWindow& w) {
  return w.real > 0 ? (w.begin[0] * s.in[1] + w.begin[1]) * s.in[2] + w.begin[2] : -1;
}

// One line of results of a plane. `taps` has room for one.
template <class T>
void pool_line(const PoolSizes& s, const int64_t* offsets, const T* x, int64_t line, T* best, hwy::MakeSigned<T>* taps,
               int64_t* places) {
  const int64_t n = s.out[2], step = s.stride[2];
  std::fill_n(best, n, -std::numeric_limits<T>::infinity());
  std::fill_n(taps, n, -1);
  const int64_t top[] = {line / s.out[1] * s.stride[0] - s.pad[0], line % s.out[1] * s.stride[1] - s.pad[1]};
  for (int64_t row = 0; row < s.kernel[0] * s.kernel[1]; ++row) {
    const int64_t z = top[0] + row / s.kernel[1] * s.dilation[0], y = top[1] + row % s.kernel[1] * s.dilation[1];
    if (z < 0 || z >= s.in[0] || y < 0 || y >= s.in[1]) continue;
    for (int64_t k = 0; k < s.kernel[2]; ++k) {
      const int64_t shift = k * s.dilation[2] - s.pad[2];
      const int64_t first = shift < 0 ? (-shift + step - 1) / step : 0;
      const int64_t last = s.in[2] > shift ? std::min(n, (s.in[2] - 1 - shift) / step + 1) : 0;
      if (first >= last) continue;
      look_at(x + (z * s.in[1] + y) * s.in[2] + first * step + shift, step, hwy::MakeSigned<T>(row * s.kernel[2] + k),
              last - first, best + first, taps + first);
    }
  }
  const int64_t base = (top[0] * s.in[1] + top[1]) * s.in[2] - s.pad[2];
  for (int64_t i = 0; i < n; ++i) {  // where nothing is above -infinity, the first one
    places[i] = taps[i] >= 0 ? base + offsets[taps[i]] + i * step : first_place(s, s.window(line * n + i));
  }
}

}  // namespace

template <class T>
void pool_with_places(RunContext& run, const PoolSizes& s, int64_t planes, const T* x, T* best, int64_t* places) {
  const int64_t in = s.in[0] * s.in[1] * s.in[2], lines = s.out[0] * s.out[1], n = s.out[2];
  const int64_t cost = std::max<int64_t>(1, n * s.kernel[0] * s.kernel[1] * s.kernel[2]);
  run.parallel_for(planes * lines, std::max<int64_t>(1, (1 << 15) / cost), [&](int64_t begin, int64_t end) {
    using Tap = hwy::MakeSigned<T>;
    const Scratch taps(size_t(n) * sizeof(Tap));
    const Scratch offsets(size_t(s.kernel[0] * s.kernel[1] * s.kernel[2]) * sizeof(int64_t));
    fill_offsets(s, offsets.as<int64_t>());
    for (int64_t i = begin; i < end; ++i) {
      pool_line(s, offsets.as<int64_t>(), x + i / lines * in, i % lines, best + i * n, taps.as<Tap>(), places + i * n);
    }
  });
}

template void pool_with_places(RunContext&, const PoolSizes&, int64_t, const float*, float*, int64_t*);
template void pool_with_places(RunContext&, const PoolSizes&, int64_t, const double*, double*, int64_t*);

}  // namespace kaon::ops
#endif
