// Max pooling over 2 x 2 windows that tile the image, in both layouts.
#include <algorithm>

#include "kaon/ops/nn/pooling/kernels/pooling_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/pooling/kernels/pooling_pairs.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/kernels/for_each_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The larger one; NaN wins.
template <class V>
HWY_INLINE V larger(V x, V best) {
  return hn::IfThenElse(hn::Or(hn::Gt(x, best), hn::IsNaN(x)), x, best);
}

// The part of the gradient in `rest` that `value` gets; the first maximum, or the first NaN, takes all of it.
template <class D, class V>
HWY_INLINE V take(D d, V value, V top, V& rest) {
  const auto is_top = hn::Or(hn::Eq(value, top), hn::IsNaN(value));
  const V part = hn::IfThenElseZero(is_top, rest);
  rest = hn::IfThenElse(is_top, hn::Zero(d), rest);
  return part;
}

// Two input rows of row-major data into n outputs.
void ForwardRows(const float* HWY_RESTRICT top_row, const float* HWY_RESTRICT low_row, float* HWY_RESTRICT y,
                 int64_t n) {
  for_each_vector<float>(n, [&](auto d, int64_t i) {
    hn::Vec<decltype(d)> a, b, e, f;
    hn::LoadInterleaved2(d, top_row + 2 * i, a, b);
    hn::LoadInterleaved2(d, low_row + 2 * i, e, f);
    hn::StoreU(larger(larger(f, e), larger(b, a)), d, y + i);
  });
}

// The means of the same windows; the sums are taken in the order of the elements.
void MeanRows(const float* HWY_RESTRICT top_row, const float* HWY_RESTRICT low_row, float* HWY_RESTRICT y, int64_t n) {
  for_each_vector<float>(n, [&](auto d, int64_t i) {
    hn::Vec<decltype(d)> a, b, e, f;
    hn::LoadInterleaved2(d, top_row + 2 * i, a, b);
    hn::LoadInterleaved2(d, low_row + 2 * i, e, f);
    const auto sum = hn::Add(hn::Add(hn::Add(a, b), e), f);
    hn::StoreU(hn::Mul(sum, hn::Set(d, 0.25f)), d, y + i);
  });
}

void BackwardRows(const float* HWY_RESTRICT x, int64_t width, const float* HWY_RESTRICT y,
                  const float* HWY_RESTRICT head, float* HWY_RESTRICT dx, int64_t n) {
  for_each_vector<float>(n, [&](auto d, int64_t i) {
    const auto top = hn::LoadU(d, y + i);
    auto rest = hn::LoadU(d, head + i);
    for (int row = 0; row < 2; ++row) {
      hn::Vec<decltype(d)> even, odd;
      hn::LoadInterleaved2(d, x + row * width + 2 * i, even, odd);
      even = take(d, even, top, rest);
      odd = take(d, odd, top, rest);
      hn::StoreInterleaved2(even, odd, d, dx + row * width + 2 * i);
    }
  });
}

// One output row, n positions, of channels_last data; `width` is the floats of an input row.
void ForwardChannels(const float* HWY_RESTRICT x, int64_t width, int64_t channels, float* HWY_RESTRICT y, int64_t n) {
  for (int64_t p = 0; p < n; ++p, x += 2 * channels, y += channels) {
    for_each_vector<float>(channels, [&](auto d, int64_t c) {
      const auto a = hn::LoadU(d, x + c), b = hn::LoadU(d, x + channels + c);
      const auto e = hn::LoadU(d, x + width + c), f = hn::LoadU(d, x + width + channels + c);
      hn::StoreU(larger(larger(f, e), larger(b, a)), d, y + c);
    });
  }
}

void BackwardChannels(const float* HWY_RESTRICT x, int64_t width, int64_t channels, const float* HWY_RESTRICT y,
                      const float* HWY_RESTRICT head, float* HWY_RESTRICT dx, int64_t n) {
  for (int64_t p = 0; p < n; ++p, x += 2 * channels, dx += 2 * channels, y += channels, head += channels) {
    for_each_vector<float>(channels, [&](auto d, int64_t c) {
      const auto top = hn::LoadU(d, y + c);
      auto rest = hn::LoadU(d, head + c);
      const auto one = [&](int64_t at) { hn::StoreU(take(d, hn::LoadU(d, x + at), top, rest), d, dx + at); };
      one(c), one(channels + c), one(width + c), one(width + channels + c);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(ForwardRows);
HWY_EXPORT(MeanRows);
HWY_EXPORT(BackwardRows);
HWY_EXPORT(ForwardChannels);
HWY_EXPORT(BackwardChannels);

namespace {

bool tiles_2x2(const PoolJob<float>& job) {
  const ConvGeometry& g = job.g;
  if (g.axes != 2) return false;
  for (size_t a = 0; a < 2; ++a) {
    if (g.kernel[a] != 2 || g.stride[a] != 2 || g.pad[a] != 0 || g.dilate[a] != 1 || g.in[a] != 2 * g.out[a])
      return false;
  }
  return true;
}

// Calls body(input offset, output offset) for every output row: of a plane, or of an image with all channels.
template <class Body>
void for_each_row(RunContext& run, const PoolJob<float>& job, Body&& body) {
  const ConvGeometry& g = job.g;
  const int64_t per_position = job.channels_last ? g.in_channels : 1;
  const int64_t rows = g.batch * (job.channels_last ? 1 : g.in_channels) * g.out[0];
  const int64_t in = 2 * g.in[1] * per_position, out = g.out[1] * per_position;
  run.parallel_for(rows, std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, in)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row * in, row * out);
  });
}

}  // namespace

bool pool_pairs_forward(RunContext& run, const PoolJob<float>& job) {
  const bool is_mean = job.type == PoolType::avg && !job.channels_last;
  if (!(is_mean || job.type == PoolType::max) || !tiles_2x2(job)) return false;
  const int64_t width = job.g.in[1], channels = job.g.in_channels, n = job.g.out[1];
  for_each_row(run, job, [&](int64_t in, int64_t out) {
    if (job.channels_last) {
      HWY_DYNAMIC_DISPATCH(ForwardChannels)(job.x + in, width * channels, channels, job.out + out, n);
    } else if (is_mean) {
      HWY_DYNAMIC_DISPATCH(MeanRows)(job.x + in, job.x + in + width, job.out + out, n);
    } else {
      HWY_DYNAMIC_DISPATCH(ForwardRows)(job.x + in, job.x + in + width, job.out + out, n);
    }
  });
  return true;
}

bool pool_pairs_backward(RunContext& run, const PoolJob<float>& job) {
  if (job.type != PoolType::max || !tiles_2x2(job)) return false;
  const int64_t width = job.g.in[1], channels = job.g.in_channels, n = job.g.out[1];
  for_each_row(run, job, [&](int64_t in, int64_t out) {
    if (job.channels_last) {
      HWY_DYNAMIC_DISPATCH(BackwardChannels)
      (job.x + in, width * channels, channels, job.y + out, job.head + out, job.out + in, n);
    } else {
      HWY_DYNAMIC_DISPATCH(BackwardRows)(job.x + in, width, job.y + out, job.head + out, job.out + in, n);
    }
  });
  return true;
}

}  // namespace kaon::ops
#endif
