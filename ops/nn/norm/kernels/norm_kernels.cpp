#include "kaon/ops/nn/norm/kernels/norm_table.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/norm/kernels/norm_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/kernels/for_each_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sums f(tag, i) over i < n with four chains; the tail in single lanes.
template <class T, class F>
HWY_INLINE T sum_over(int64_t n, F f) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = int64_t(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, f(d, i));
    s1 = hn::Add(s1, f(d, i + lanes));
    s2 = hn::Add(s2, f(d, i + 2 * lanes));
    s3 = hn::Add(s3, f(d, i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, f(d, i));
  T total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < n; ++i) total += hn::GetLane(f(one, i));
  return total;
}

// out[c] = sum over rows of f(tag, row offset, c) for rows of `channels` elements.
template <class T, class F>
HWY_INLINE void sum_rows(int64_t rows, int64_t channels, T* out, F f) {
  for_each_vector<T>(channels, [&](auto d, int64_t c) {
    auto s0 = hn::Zero(d), s1 = s0;  // two chains
    int64_t i = 0;
    for (; i + 2 <= rows; i += 2) {
      s0 = hn::Add(s0, f(d, i * channels + c, c));
      s1 = hn::Add(s1, f(d, (i + 1) * channels + c, c));
    }
    if (i < rows) s0 = hn::Add(s0, f(d, i * channels + c, c));
    hn::StoreU(hn::Add(s0, s1), d, out + c);
  });
}

// Moments of a piece of rows whose channels are innermost: mean, and the sum of squared distances from it.
template <class T>
void row_moments(const T* HWY_RESTRICT x, int64_t rows, int64_t channels, T* HWY_RESTRICT mean,
                 T* HWY_RESTRICT squares) {
  sum_rows(rows, channels, mean, [&](auto d, int64_t at, int64_t) { return hn::LoadU(d, x + at); });
  for (int64_t c = 0; c < channels; ++c) mean[c] /= T(rows);
  sum_rows(rows, channels, squares, [&](auto d, int64_t at, int64_t c) {
    const auto v = hn::Sub(hn::LoadU(d, x + at), hn::LoadU(d, mean + c));
    return hn::Mul(v, v);
  });
}

template <class T>
void row_products(const T* HWY_RESTRICT head, const T* HWY_RESTRICT x, const T* HWY_RESTRICT mean, int64_t rows,
                  int64_t channels, T* HWY_RESTRICT head_sum, T* HWY_RESTRICT product_sum) {
  sum_rows(rows, channels, head_sum, [&](auto d, int64_t at, int64_t) { return hn::LoadU(d, head + at); });
  sum_rows(rows, channels, product_sum, [&](auto d, int64_t at, int64_t c) {
    return hn::Mul(hn::LoadU(d, head + at), hn::Sub(hn::LoadU(d, x + at), hn::LoadU(d, mean + c)));
  });
}

// One channel of `outer` runs of `inner` elements. Runs are summed in double: there may be many.
template <class T>
void plane_moments(const T* HWY_RESTRICT x, const ChannelSizes& s, int64_t channel, T* mean, T* variance) {
  const int64_t step = s.channels * s.inner;
  double sum = 0, squares = 0;
  for (int64_t n = 0; n < s.outer; ++n) {
    const T* p = x + n * step + channel * s.inner;
    sum += double(sum_over<T>(s.inner, [&](auto d, int64_t i) { return hn::LoadU(d, p + i); }));
  }
  const T center = T(sum / double(s.per_channel()));
  for (int64_t n = 0; n < s.outer; ++n) {
    const T* p = x + n * step + channel * s.inner;
    squares += double(sum_over<T>(s.inner, [&](auto d, int64_t i) {
      const auto v = hn::Sub(hn::LoadU(d, p + i), hn::Set(d, center));
      return hn::Mul(v, v);
    }));
  }
  *mean = center;
  *variance = T(squares / double(s.per_channel()));
}

template <class T>
void plane_products(const T* HWY_RESTRICT head, const T* HWY_RESTRICT x, const ChannelSizes& s, int64_t channel, T mean,
                    T* head_sum, T* product_sum) {
  double heads = 0, products = 0;
  for (int64_t n = 0; n < s.outer; ++n) {
    const int64_t at = (n * s.channels + channel) * s.inner;
    heads += double(sum_over<T>(s.inner, [&](auto d, int64_t i) { return hn::LoadU(d, head + at + i); }));
    products += double(sum_over<T>(s.inner, [&](auto d, int64_t i) {
      return hn::Mul(hn::LoadU(d, head + at + i), hn::Sub(hn::LoadU(d, x + at + i), hn::Set(d, mean)));
    }));
  }
  *head_sum = T(heads);
  *product_sum = T(products);
}

// Runs [begin, end) of `inner` elements of one channel each.
template <class T>
void affine_planes(const ChannelAffine<T>& f, const ChannelSizes& s, int64_t begin, int64_t end) {
  for (int64_t run = begin; run < end; ++run) {
    const size_t c = size_t(run % s.channels);
    const int64_t at = run * s.inner;
    for_each_vector<T>(s.inner, [&](auto d, int64_t i) {
      const auto centered = hn::Sub(hn::LoadU(d, f.x + at + i), hn::Set(d, f.mean[c]));
      auto v = hn::MulAdd(centered, hn::Set(d, f.b[c]), hn::Set(d, f.shift[c]));
      if (f.head) v = hn::MulAdd(hn::LoadU(d, f.head + at + i), hn::Set(d, f.a[c]), v);
      hn::StoreU(v, d, f.out + at + i);
    });
  }
}

// Rows [begin, end) of all channels.
template <class T>
void affine_rows(const ChannelAffine<T>& f, const ChannelSizes& s, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * s.channels;
    for_each_vector<T>(s.channels, [&](auto d, int64_t c) {
      const auto centered = hn::Sub(hn::LoadU(d, f.x + at + c), hn::LoadU(d, f.mean + c));
      auto v = hn::MulAdd(centered, hn::LoadU(d, f.b + c), hn::LoadU(d, f.shift + c));
      if (f.head) v = hn::MulAdd(hn::LoadU(d, f.head + at + c), hn::LoadU(d, f.a + c), v);
      hn::StoreU(v, d, f.out + at + c);
    });
  }
}

// Count, mean and sum of squared distances of a row. One that is longer than a part is read once: the parts' moments,
// each taken in the first-level cache, are merged in their order.
template <class T>
HWY_INLINE Moments<T> moments_of_row(const T* x, int64_t columns) {
  constexpr int64_t part = 4096;
  const auto of_part = [](const T* p, int64_t n) -> Moments<T> {
    const T center = sum_over<T>(n, [&](auto d, int64_t i) { return hn::LoadU(d, p + i); }) / T(n);
    const T squares = sum_over<T>(n, [&](auto d, int64_t i) {
      const auto v = hn::Sub(hn::LoadU(d, p + i), hn::Set(d, center));
      return hn::Mul(v, v);
    });
    return {T(n), center, squares};
  };
  if (columns <= part) return of_part(x, columns);
  Moments<double> all{};
  for (int64_t i = 0; i < columns; i += part) {
    const Moments<T> m = of_part(x + i, std::min(part, columns - i));
    all = merge(all, {double(m.count), double(m.mean), double(m.squares)});
  }
  return {T(columns), T(all.mean), T(all.squares)};
}

template <class T>
void layer_rows(int64_t rows, int64_t columns, const T* x, const RowAffine<T>& affine, double eps, T* y, T* mean,
                T* std) {
  const T *gamma = affine.gamma, *beta = affine.beta;
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const Moments<T> m = moments_of_row(x, columns);
    const T center = m.mean;
    mean[r] = center;
    std[r] = row_deviation(m.squares, columns, eps);
    const T inverse = T(1) / std[r];
    if (affine.per_row) {
      const T scale = inverse * gamma[r], shift = beta[r];
      for_each_vector<T>(columns, [&](auto d, int64_t i) {
        const auto v = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, center));
        hn::StoreU(hn::MulAdd(v, hn::Set(d, scale), hn::Set(d, shift)), d, y + i);
      });
      continue;
    }
    for_each_vector<T>(columns, [&](auto d, int64_t i) {
      const auto v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, center)), hn::Set(d, inverse));
      hn::StoreU(hn::MulAdd(v, hn::LoadU(d, gamma + i), hn::LoadU(d, beta + i)), d, y + i);
    });
  }
}

// dgamma and dbeta are those of these rows, or null.
template <class T>
void layer_rows_backward(int64_t rows, int64_t columns, const T* head, const T* x, const RowAffine<T>& affine,
                         const T* mean, const T* std, T* dx, T* dgamma, T* dbeta) {
  const T* const gamma = affine.gamma;
  if (dgamma && !affine.per_row) std::fill_n(dgamma, columns, T(0));
  if (dbeta && !affine.per_row) std::fill_n(dbeta, columns, T(0));
  for (int64_t r = 0; r < rows; ++r, head += columns, x += columns) {
    const T inverse = T(1) / std[r], center = mean[r];
    const auto normal = [&](auto d, int64_t i) {
      return hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, center)), hn::Set(d, inverse));
    };
    if (affine.per_row) {
      const T heads = sum_over<T>(columns, [&](auto d, int64_t i) { return hn::LoadU(d, head + i); });
      const T products =
          sum_over<T>(columns, [&](auto d, int64_t i) { return hn::Mul(hn::LoadU(d, head + i), normal(d, i)); });
      if (dgamma) dgamma[r] = products;
      if (dbeta) dbeta[r] = heads;
      const T mean1 = heads / T(columns), mean2 = products / T(columns), scale = inverse * gamma[r];
      if (!dx) continue;
      for_each_vector<T>(columns, [&](auto d, int64_t i) {
        const auto v =
            hn::Sub(hn::Sub(hn::LoadU(d, head + i), hn::Set(d, mean1)), hn::Mul(normal(d, i), hn::Set(d, mean2)));
        hn::StoreU(hn::Mul(v, hn::Set(d, scale)), d, dx + r * columns + i);
      });
      continue;
    }
    if (dx) {
      const auto slope = [&](auto d, int64_t i) { return hn::Mul(hn::LoadU(d, head + i), hn::LoadU(d, gamma + i)); };
      const T mean1 = sum_over<T>(columns, slope) / T(columns);
      const T mean2 =
          sum_over<T>(columns, [&](auto d, int64_t i) { return hn::Mul(slope(d, i), normal(d, i)); }) / T(columns);
      for_each_vector<T>(columns, [&](auto d, int64_t i) {
        const auto v = hn::Sub(hn::Sub(slope(d, i), hn::Set(d, mean1)), hn::Mul(normal(d, i), hn::Set(d, mean2)));
        hn::StoreU(hn::Mul(v, hn::Set(d, inverse)), d, dx + r * columns + i);
      });
    }
    for_each_vector<T>(columns, [&](auto d, int64_t i) {
      const auto h = hn::LoadU(d, head + i);
      if (dgamma) hn::StoreU(hn::MulAdd(h, normal(d, i), hn::LoadU(d, dgamma + i)), d, dgamma + i);
      if (dbeta) hn::StoreU(hn::Add(h, hn::LoadU(d, dbeta + i)), d, dbeta + i);
    });
  }
}

template <class T>
constexpr NormTable<T> table{row_moments<T>,   row_products<T>, plane_moments<T>, plane_products<T>,
                             affine_planes<T>, affine_rows<T>,  layer_rows<T>,    layer_rows_backward<T>};

// Highway exports plain functions only.
const NormTable<float>* TableFloat() { return &table<float>; }
const NormTable<double>* TableDouble() { return &table<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(TableFloat);
HWY_EXPORT(TableDouble);

template <>
const NormTable<float>& norm_table() {
  return *HWY_DYNAMIC_DISPATCH(TableFloat)();
}
template <>
const NormTable<double>& norm_table() {
  return *HWY_DYNAMIC_DISPATCH(TableDouble)();
}

}  // namespace kaon::ops
#endif
