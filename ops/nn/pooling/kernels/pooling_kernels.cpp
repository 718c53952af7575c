#include "kaon/ops/nn/pooling/kernels/pooling_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kaon/ops/kernels/image_layout.h"
#include "kaon/ops/kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/pooling/kernels/pooling_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/kernels/for_each_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls visit(input position) for the window's elements in row-major order.
template <class Visit>
HWY_INLINE void for_each(const PoolSizes& s, const PoolWindow& w, Visit visit) {
  for (int64_t z = w.begin[0]; z < w.end[0]; z += s.dilation[0]) {
    for (int64_t y = w.begin[1]; y < w.end[1]; y += s.dilation[1]) {
      const int64_t row = (z * s.in[1] + y) * s.in[2];
      for (int64_t x = w.begin[2]; x < w.end[2]; x += s.dilation[2]) visit(row + x);
    }
  }
}

// The larger one; NaN wins.
template <class D, class V>
HWY_INLINE V larger(D, V x, V best) {
  return hn::IfThenElse(hn::Or(hn::Gt(x, best), hn::IsNaN(x)), x, best);
}

template <class D, class V>
HWY_INLINE V power(D d, V x, int p) {
  const V a = hn::Abs(x);
  (void)d;
  return p == 1 ? a : p == 2 ? hn::Mul(x, x) : hn::Mul(a, hn::Mul(a, a));
}

// The p-th root, lane by lane for p = 3.
template <class D, class V>
HWY_INLINE V root(D d, V x, int p) {
  if (p == 1) return x;
  if (p == 2) return hn::Sqrt(x);
  HWY_ALIGN hn::TFromD<D> lanes[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = std::cbrt(lanes[i]);
  return hn::Load(d, lanes);
}

template <class T>
T divisor(const PoolJob<T>& job, const PoolWindow& w) {
  return T(pool_divisor(job.type, job.count_pad, w));
}

// Output positions [begin, end) of one image with the channels innermost.
template <class T>
void forward_positions(const PoolJob<T>& job, const PoolSizes& s, const T* HWY_RESTRICT x, T* HWY_RESTRICT y,
                       int64_t channels, int64_t begin, int64_t end) {
  for (int64_t position = begin; position < end; ++position) {
    const PoolWindow w = s.window(position);
    const T scale = divisor(job, w);
    for_each_vector<T>(channels, [&](auto d, int64_t c) {
      auto total = hn::Set(d, job.type == PoolType::max ? -std::numeric_limits<T>::infinity() : T(0));
      if (job.type == PoolType::max) {
        for_each(s, w, [&](int64_t from) { total = larger(d, hn::LoadU(d, x + from * channels + c), total); });
      } else if (job.type == PoolType::lp) {
        for_each(s, w,
                 [&](int64_t from) { total = hn::Add(total, power(d, hn::LoadU(d, x + from * channels + c), job.p)); });
        total = root(d, total, job.p);
      } else {
        for_each(s, w, [&](int64_t from) { total = hn::Add(total, hn::LoadU(d, x + from * channels + c)); });
        if (scale != T(1)) total = hn::Div(total, hn::Set(d, scale));
      }
      hn::StoreU(total, d, y + position * channels + c);
    });
  }
}

// The gradient of one image with the channels innermost; `dx` is zero before. Disjoint: each element is in one window.
template <bool Disjoint, class T>
void backward_positions(const PoolJob<T>& job, const PoolSizes& s, const T* HWY_RESTRICT x, const T* HWY_RESTRICT y,
                        const T* HWY_RESTRICT head, T* HWY_RESTRICT dx, int64_t channels) {
  const int64_t positions = s.out[0] * s.out[1] * s.out[2];
  for (int64_t position = 0; position < positions; ++position) {
    const PoolWindow w = s.window(position);
    const T scale = divisor(job, w);
    for_each_vector<T>(channels, [&](auto d, int64_t c) {
      const auto g = hn::LoadU(d, head + position * channels + c);
      const auto top = hn::LoadU(d, y + position * channels + c);
      const auto add = [&](int64_t to, auto v) {
        T* p = dx + to * channels + c;
        hn::StoreU(Disjoint ? v : hn::Add(hn::LoadU(d, p), v), d, p);
      };
      if (job.type == PoolType::max) {
        auto rest = g;  // becomes zero in the lanes whose maximum was met
        for_each(s, w, [&](int64_t to) {
          const auto value = hn::LoadU(d, x + to * channels + c);
          // in a window with a NaN the first NaN takes the gradient
          const auto is_top = hn::Or(hn::Eq(value, top), hn::IsNaN(value));
          add(to, hn::IfThenElseZero(is_top, rest));
          rest = hn::IfThenElse(is_top, hn::Zero(d), rest);
        });
      } else if (job.type == PoolType::lp) {
        for_each(s, w, [&](int64_t to) {
          const auto value = hn::LoadU(d, x + to * channels + c);
          auto slope = hn::CopySign(hn::Set(d, T(1)), value);
          for (int i = 1; i < job.p; ++i) slope = hn::Mul(slope, hn::Div(hn::Abs(value), top));
          add(to, hn::IfThenElse(hn::Eq(top, hn::Zero(d)), hn::Zero(d), hn::Mul(g, slope)));
        });
      } else {
        const auto part = scale == T(1) ? g : hn::Div(g, hn::Set(d, scale));
        for_each(s, w, [&](int64_t to) { add(to, part); });
      }
    });
  }
}

// to[i] = f(to[i], from[i * step]) for i < n; step 1 or 2.
template <class D, class T, class F>
HWY_INLINE int64_t strided_row(D d, const T* HWY_RESTRICT from, int64_t step, T* HWY_RESTRICT to, int64_t n, F f) {
  const int64_t lanes = int64_t(hn::Lanes(d));
  int64_t i = 0;
  if (step == 1) {
    for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, from + i), hn::LoadU(d, to + i)), d, to + i);
  } else {
    // reads one element past the last one used, so the last vector is left to the caller
    for (; i + lanes < n; i += lanes) {
      hn::Vec<D> even, odd;
      hn::LoadInterleaved2(d, from + 2 * i, even, odd);
      hn::StoreU(f(d, even, hn::LoadU(d, to + i)), d, to + i);
    }
  }
  return i;
}

template <class T, class F>
HWY_INLINE void combine_row(const T* from, int64_t step, T* to, int64_t n, F f) {
  int64_t i = strided_row(hn::ScalableTag<T>(), from, step, to, n, f);
  i += strided_row(hn::CappedTag<T, 16 / sizeof(T)>(), from + i * step, step, to + i, n - i, f);
  const hn::CappedTag<T, 1> one;
  for (; i < n; ++i) hn::StoreU(f(one, hn::LoadU(one, from + i * step), hn::LoadU(one, to + i)), one, to + i);
}

// The result of one window of a row-major plane, whose rows are contiguous; an average is still a sum.
template <class T>
T forward_window(const PoolJob<T>& job, const PoolSizes& s, const PoolWindow& w, const T* x) {
  const bool is_max = job.type == PoolType::max;
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  // whole rows that follow each other are one
  const bool whole = w.end[2] - w.begin[2] == s.in[2] && s.dilation[1] == 1;
  const int64_t lanes = int64_t(hn::Lanes(d)), rows = whole ? w.end[1] - w.begin[1] : 1;
  const int64_t n = rows * (w.end[2] - w.begin[2]), y_step = rows * s.dilation[1];
  const T none = is_max ? -std::numeric_limits<T>::infinity() : T(0);
  const auto both = [&](auto tag, auto v, auto total)
                        HWY_ATTR { return is_max ? larger(tag, v, total) : hn::Add(v, total); };
  auto total = hn::Set(d, none), second = total, third = total, fourth = total;  // each waits for its last addition
  auto rest = hn::Set(one, none);
  for (int64_t z = w.begin[0]; z < w.end[0]; z += s.dilation[0]) {
    for (int64_t y = w.begin[1]; y < w.end[1]; y += y_step) {
      const T* const row = x + (z * s.in[1] + y) * s.in[2] + w.begin[2];
      int64_t i = 0;
      for (; i + 4 * lanes <= n; i += 4 * lanes) {
        total = both(d, hn::LoadU(d, row + i), total);
        second = both(d, hn::LoadU(d, row + i + lanes), second);
        third = both(d, hn::LoadU(d, row + i + 2 * lanes), third);
        fourth = both(d, hn::LoadU(d, row + i + 3 * lanes), fourth);
      }
      for (; i + lanes <= n; i += lanes) total = both(d, hn::LoadU(d, row + i), total);
      for (; i < n; ++i) rest = both(one, hn::LoadU(one, row + i), rest);
    }
  }
  HWY_ALIGN T parts[hn::MaxLanes(d)];
  hn::Store(both(d, both(d, total, second), both(d, third, fourth)), d, parts);
  for (int64_t i = 0; i < lanes; ++i) rest = both(one, hn::LoadU(one, parts + i), rest);
  return hn::GetLane(rest);
}

// One row-major plane, an output row at a time: each tap of the window is one pass over that row.
template <class T>
void forward_plane(const PoolJob<T>& job, const PoolSizes& s, const T* x, T* y) {
  const bool is_max = job.type == PoolType::max;
  for (int64_t row = 0; row < s.out[0] * s.out[1]; ++row, y += s.out[2]) {
    PoolWindow w = s.window(row * s.out[2]);
    if (s.out[2] == 1 && s.dilation[2] == 1) {
      y[0] = forward_window(job, s, w, x);
      if (job.type == PoolType::avg) y[0] /= divisor(job, w);
      continue;
    }
    std::fill_n(y, s.out[2], is_max ? -std::numeric_limits<T>::infinity() : T(0));
    for (int64_t z = w.begin[0]; z < w.end[0]; z += s.dilation[0]) {
      for (int64_t iy = w.begin[1]; iy < w.end[1]; iy += s.dilation[1]) {
        const T* in_row = x + (z * s.in[1] + iy) * s.in[2];
        for (int64_t k = 0; k < s.kernel[2]; ++k) {
          // outputs whose tap k is inside the data
          const int64_t shift = k * s.dilation[2] - s.pad[2], step = s.stride[2];
          const int64_t first = shift < 0 ? (-shift + step - 1) / step : 0;
          const int64_t last = s.in[2] > shift ? std::min(s.out[2], (s.in[2] - 1 - shift) / step + 1) : 0;
          if (last <= first) continue;
          const T* from = in_row + first * step + shift;
          if (is_max) {
            combine_row(from, step, y + first, last - first,
                        [](auto d, auto v, auto best) { return larger(d, v, best); });
          } else {
            combine_row(from, step, y + first, last - first, [](auto, auto v, auto sum) { return hn::Add(v, sum); });
          }
        }
      }
    }
    if (job.type != PoolType::avg) continue;
    // windows that reach over no edge of the row share their divisor
    const int64_t step = s.stride[2], reach = s.in[2] + s.pad[2] - s.extent(2);
    const int64_t inner = std::min(s.out[2], (s.pad[2] + step - 1) / step);
    const int64_t outer = reach < 0 ? inner : std::clamp(reach / step + 1, inner, s.out[2]);
    for (int64_t i = 0; i < s.out[2]; i = i == inner ? std::max(outer, inner + 1) : i + 1) {
      const T scale = divisor(job, s.window(row * s.out[2] + i));
      const int64_t count = i == inner ? std::max<int64_t>(1, outer - inner) : 1;
      for_each_vector<T>(count, [&](auto d, int64_t k) {
        hn::StoreU(hn::Div(hn::LoadU(d, y + i + k), hn::Set(d, scale)), d, y + i + k);
      });
    }
  }
}

// Units of work: rows of the output for channels_last, planes for row-major.
template <class T>
void forward_units(const PoolJob<T>& job, int64_t begin, int64_t end) {
  const PoolSizes s(job.g);
  const int64_t in = job.g.in_positions(), out = job.g.out_positions(), channels = job.g.in_channels;
  if (job.channels_last) {
    const int64_t rows = s.out[0] * s.out[1];
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t image = unit / rows, row = unit % rows;
      forward_positions(job, s, job.x + image * in * channels, job.out + image * out * channels, channels,
                        row * s.out[2], (row + 1) * s.out[2]);
    }
    return;
  }
  const bool by_rows = job.type != PoolType::lp && s.stride[2] <= 2;
  for (int64_t plane = begin; plane < end; ++plane) {
    if (by_rows) {
      forward_plane(job, s, job.x + plane * in, job.out + plane * out);
    } else {
      forward_positions(job, s, job.x + plane * in, job.out + plane * out, 1, 0, out);
    }
  }
}

// Units of work: images for channels_last, planes for row-major.
template <class T>
void backward_units(const PoolJob<T>& job, int64_t begin, int64_t end) {
  const PoolSizes s(job.g);
  const int64_t channels = job.channels_last ? job.g.in_channels : 1;
  const int64_t in = job.g.in_positions() * channels, out = job.g.out_positions() * channels;
  bool disjoint = true, once = true;  // is an element in one window at most; in one exactly?
  for (int i = 0; i < 3; ++i) {
    disjoint = disjoint && s.stride[i] >= s.extent(i);
    once = once && s.dilation[i] == 1 && s.stride[i] == s.kernel[i] && s.out[i] * s.stride[i] >= s.in[i] + s.pad[i];
  }
  for (int64_t unit = begin; unit < end; ++unit) {
    const T* x = job.x + unit * in;
    const T* y = job.y + unit * out;
    const T* head = job.head + unit * out;
    T* dx = job.out + unit * in;
    if (!once) std::fill_n(dx, in, T(0));
    if (disjoint) {
      backward_positions<true>(job, s, x, y, head, dx, channels);
    } else {
      backward_positions<false>(job, s, x, y, head, dx, channels);
    }
  }
}

void ForwardFloat(const PoolJob<float>& job, int64_t begin, int64_t end) { forward_units(job, begin, end); }
void ForwardDouble(const PoolJob<double>& job, int64_t begin, int64_t end) { forward_units(job, begin, end); }
void BackwardFloat(const PoolJob<float>& job, int64_t begin, int64_t end) { backward_units(job, begin, end); }
void BackwardDouble(const PoolJob<double>& job, int64_t begin, int64_t end) { backward_units(job, begin, end); }

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(ForwardFloat);
HWY_EXPORT(ForwardDouble);
HWY_EXPORT(BackwardFloat);
HWY_EXPORT(BackwardDouble);

namespace {

// Units per piece: some 32 K elements.
int64_t pool_grain(int64_t elements) { return std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, elements)); }

int64_t rows_of(const ConvGeometry& g) { return g.axes == 3 ? g.out[0] * g.out[1] : g.out[0]; }

// Row-major images of several channels are pooled as channels_last: the vectors run over the channels there whatever
// the window is, which saves more than the conversions cost. Wide output rows and planes of one result are the
// exceptions.
bool worth_staging(const PoolJob<float>& job, int64_t widest) {
  const ConvGeometry& g = job.g;
  const bool is_one_sum = job.type != PoolType::lp && g.out_positions() == 1 && g.in_positions() >= 32;
  return !job.channels_last && !is_one_sum && g.in_channels >= 4 && g.out[size_t(g.axes - 1)] <= widest;
}

// Row-major planes are independent: a group of up to 32 channels is treated as an image, small enough for the cache.
PoolJob<float> in_channel_groups(PoolJob<float> job) {
  const int64_t channels = job.g.in_channels;
  int64_t group = std::min<int64_t>(channels, 32);
  while (channels % group != 0) --group;
  if (group < 4) group = channels;
  job.g.batch *= channels / group;
  job.g.in_channels = job.g.out_channels = group;
  return job;
}

// Calls body(job of one image, channels_last) with x, y and head converted, and converts its output back.
template <class Body>
void through_channels_last(RunContext& run, const PoolJob<float>& whole, int64_t result_positions, Body&& body) {
  const PoolJob<float> job = in_channel_groups(whole);
  const ConvGeometry& g = job.g;
  const int64_t channels = g.in_channels, in = g.in_positions(), out = g.out_positions();
  constexpr auto rm = ImageLayout::row_major, cl = ImageLayout::channels_last;
  run.parallel_for(g.batch, pool_grain(in * channels), [&](int64_t begin, int64_t end) {
    const size_t in_bytes = line_aligned(size_t(in * channels) * sizeof(float));
    const size_t out_bytes = line_aligned(size_t(out * channels) * sizeof(float));
    const Scratch staging(in_bytes + 2 * out_bytes + std::max(in_bytes, out_bytes));
    float* const x = staging.as<float>();
    float* const y = reinterpret_cast<float*>(staging.data() + in_bytes);
    float* const head = reinterpret_cast<float*>(staging.data() + in_bytes + out_bytes);
    float* const result = reinterpret_cast<float*>(staging.data() + in_bytes + 2 * out_bytes);
    for (int64_t image = begin; image < end; ++image) {
      PoolJob<float> one = job;
      one.g.batch = 1;
      one.channels_last = true;
      one.x = x, one.out = result;
      convert_images(job.x + image * in * channels, rm, x, cl, 1, channels, in);
      if (job.head) {
        convert_images(job.y + image * out * channels, rm, y, cl, 1, channels, out);
        convert_images(job.head + image * out * channels, rm, head, cl, 1, channels, out);
        one.y = y, one.head = head;
      }
      body(one);
      convert_images(result, cl, job.out + image * result_positions * channels, rm, 1, channels, result_positions);
    }
  });
}

}  // namespace

template <>
void pool_forward(RunContext& run, const PoolJob<float>& job) {
  const ConvGeometry& g = job.g;
  if (pool_pairs_forward(run, job)) return;
  if (worth_staging(job, 32)) {
    return through_channels_last(run, job, g.out_positions(), [](const PoolJob<float>& one) {
      HWY_DYNAMIC_DISPATCH(ForwardFloat)(one, 0, rows_of(one.g));
    });
  }
  const int64_t rows = rows_of(g);
  const int64_t units = g.batch * (job.channels_last ? rows : g.in_channels);
  const int64_t image = g.in_positions() * g.in_channels;
  run.parallel_for(units, pool_grain(job.channels_last ? image / rows : g.in_positions()),
                   [&](int64_t begin, int64_t end) {
                     HWY_DYNAMIC_DISPATCH(ForwardFloat)
                     (job, begin, end);
                   });
}

template <>
void pool_backward(RunContext& run, const PoolJob<float>& job) {
  const ConvGeometry& g = job.g;
  if (pool_pairs_backward(run, job)) return;
  if (worth_staging(job, std::numeric_limits<int64_t>::max())) {
    return through_channels_last(run, job, g.in_positions(), [](const PoolJob<float>& one) {
      HWY_DYNAMIC_DISPATCH(BackwardFloat)(one, 0, 1);
    });
  }
  const int64_t units = job.channels_last ? g.batch : g.batch * g.in_channels;
  const int64_t elements = job.channels_last ? g.in_positions() * g.in_channels : g.in_positions();
  run.parallel_for(units, pool_grain(elements), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(BackwardFloat)(job, begin, end);
  });
}

template <>
void pool_forward(RunContext& run, const PoolJob<double>& job) {
  const int64_t units = job.g.batch * (job.channels_last ? rows_of(job.g) : job.g.in_channels);
  run.parallel_for(units, pool_grain(job.g.in_positions()), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(ForwardDouble)(job, begin, end);
  });
}

template <>
void pool_backward(RunContext& run, const PoolJob<double>& job) {
  const int64_t units = job.channels_last ? job.g.batch : job.g.batch * job.g.in_channels;
  run.parallel_for(units, pool_grain(job.g.in_positions()), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(BackwardDouble)(job, begin, end);
  });
}

}  // namespace kaon::ops
#endif
