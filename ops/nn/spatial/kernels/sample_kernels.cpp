#include "kaon/ops/nn/spatial/kernels/sample_kernels.h"

#include <algorithm>

#include "kaon/ops/kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/nn/spatial/kernels/sample_kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/kernels/for_each_vector-inl.h"

#ifndef KAON_SAMPLE_POINTS_
#define KAON_SAMPLE_POINTS_
namespace kaon::ops {

constexpr int64_t block = 256;  // points at a time

// Up to `block` points: the four pixels that each is between, with their weights and the derivatives of these by the
// position. Rows of `block` numbers. The pixels are two pairs side by side, one above the other.
template <class T>
struct Points {
  using Index = hwy::MakeSigned<T>;
  int64_t side;  // from a pair's left pixel to its right one: 1, but 0 in images of one column
  alignas(64) Index pair[2][block];
  alignas(64) T weight[4][block], down[4][block], right[4][block];
  alignas(64) T y[block], x[block];  // positions
};

}  // namespace kaon::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace kaon::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The vector form of AxisPair.
template <class D>
struct Pair {
  hn::Vec<hn::RebindToSigned<D>> low, high;
  hn::Vec<D> low_weight, high_weight, low_slope, high_slope;
};

template <class D>
HWY_INLINE Pair<D> pair_of(D d, hn::Vec<D> at, int64_t size, bool edge) {
  using T = hn::TFromD<D>;
  const hn::RebindToSigned<D> di;
  const auto zero = hn::Zero(d), one = hn::Set(d, T(1)), last = hn::Set(d, T(size - 1));
  const auto begins = hn::Ge(at, edge ? zero : hn::Neg(one));
  const auto inside = hn::And(begins, hn::Lt(at, hn::Set(d, T(size))));
  at = hn::IfThenElseZero(inside, at);
  const auto first = hn::Floor(at), part = hn::Sub(at, first);
  const auto stays = edge ? hn::Ge(first, last) : hn::Gt(zero, one);
  const auto has_low = hn::And(inside, hn::Ge(first, zero));
  const auto has_high = hn::And(inside, hn::Lt(first, last));
  Pair<D> p;
  p.low = hn::ConvertTo(di, hn::Max(zero, first));
  p.high = hn::ConvertTo(di, hn::Min(hn::Add(first, one), last));
  p.low_weight = hn::IfThenElseZero(has_low, hn::IfThenElse(stays, one, hn::Sub(one, part)));
  p.high_weight = hn::IfThenElseZero(has_high, part);
  p.low_slope = hn::IfThenElse(stays, zero, hn::IfThenElseZero(has_low, hn::Neg(one)));
  p.high_slope = hn::IfThenElseZero(has_high, one);
  return p;
}

// The same, but low and high side by side, in images of two columns and more. A pixel outside has no weight: the pair
// moves so that it has two inside, and the one that had weight is the other of the two.
template <class D>
HWY_INLINE Pair<D> side_by_side(D d, const Pair<D>& x, int64_t size) {
  using T = hn::TFromD<D>;
  const hn::RebindToSigned<D> di;
  const auto left = hn::Min(x.low, hn::Set(di, hwy::MakeSigned<T>(std::max<int64_t>(size - 2, 0))));
  const auto turns = hn::RebindMask(d, hn::Or(hn::Eq(x.high, hn::Zero(di)), hn::Gt(x.low, left)));
  Pair<D> p;
  p.low = p.high = left;
  p.low_weight = hn::IfThenElse(turns, x.high_weight, x.low_weight);
  p.high_weight = hn::IfThenElse(turns, x.low_weight, x.high_weight);
  p.low_slope = hn::IfThenElse(turns, x.high_slope, x.low_slope);
  p.high_slope = hn::IfThenElse(turns, x.low_slope, x.high_slope);
  return p;
}

// Fills the pixels and weights of n points from their positions; with `slopes` the derivatives too.
template <class T>
void find_pixels(Points<T>& p, int64_t n, int64_t height, int64_t width, bool edge, bool slopes) {
  p.side = width > 1;
  for_each_vector<T>(n, [&](auto d, int64_t i) {
    using D = decltype(d);
    const hn::RebindToSigned<D> di;
    const Pair<D> y = pair_of(d, hn::LoadU(d, p.y + i), height, edge);
    const Pair<D> x = side_by_side(d, pair_of(d, hn::LoadU(d, p.x + i), width, edge), width);
    const auto columns = hn::Set(di, hwy::MakeSigned<T>(width));
    hn::StoreU(hn::Add(hn::Mul(y.low, columns), x.low), di, p.pair[0] + i);
    hn::StoreU(hn::Add(hn::Mul(y.high, columns), x.low), di, p.pair[1] + i);
    for (int k = 0; k < 4; ++k) {
      const auto of_row = k < 2 ? y.low_weight : y.high_weight, of_column = k % 2 ? x.high_weight : x.low_weight;
      hn::StoreU(hn::Mul(of_row, of_column), d, p.weight[k] + i);
      if (!slopes) continue;
      hn::StoreU(hn::Mul(k < 2 ? y.low_slope : y.high_slope, of_column), d, p.down[k] + i);
      hn::StoreU(hn::Mul(of_row, k % 2 ? x.high_slope : x.low_slope), d, p.right[k] + i);
    }
  });
}

// The left and right pixels of pairs.
template <class D, class T>
HWY_INLINE void pixels_of(D d, const T* plane, hn::Vec<hn::RebindToSigned<D>> at, int64_t side, hn::Vec<D>& left,
                          hn::Vec<D>& right) {
  const hn::RebindToSigned<D> di;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if constexpr (sizeof(T) == 4 && hn::MaxLanes(D()) >= 4) {
    if (side == 1) {  // a pair in one load of 64 bits: gathering takes its time for each load
      const hn::Repartition<int64_t, D> pairs;
      const hn::Half<decltype(di)> half;
      const auto gather = [&](auto some) {
        const auto bytes = hn::ShiftLeft<2>(hn::PromoteTo(pairs, some));
        return hn::BitCast(d, hn::GatherOffset(pairs, reinterpret_cast<const int64_t*>(plane), bytes));
      };
      const auto first = gather(hn::LowerHalf(half, at)), second = gather(hn::UpperHalf(half, at));
      left = hn::ConcatEven(d, second, first), right = hn::ConcatOdd(d, second, first);
      return;
    }
  }
#endif
  left = hn::GatherIndex(d, plane, at);
  right = hn::GatherIndex(d, plane, hn::Add(at, hn::Set(di, hwy::MakeSigned<T>(side))));
}

// The sum of the pixels of points from i on with these weights; those of weight 0 do not count, whatever they are.
template <class D, class T>
HWY_INLINE hn::Vec<D> weighted(D d, const Points<T>& p, const T (&weights)[4][block], const T* plane, int64_t i) {
  auto sum = hn::Zero(d);
  for (int row = 0; row < 2; ++row) {
    hn::Vec<D> pixels[2];
    pixels_of(d, plane, hn::LoadU(hn::RebindToSigned<D>(), p.pair[row] + i), p.side, pixels[0], pixels[1]);
    for (int k = 0; k < 2; ++k) {
      const auto w = hn::LoadU(d, weights[2 * row + k] + i);
      sum = hn::Add(sum, hn::IfThenZeroElse(hn::Eq(w, hn::Zero(d)), hn::Mul(w, pixels[k])));
    }
  }
  return sum;
}

template <class T>
void take(const Points<T>& p, const T* plane, int64_t n, T* out) {
  for_each_vector<T>(n, [&](auto d, int64_t i) { hn::StoreU(weighted(d, p, p.weight, plane, i), d, out + i); });
}

// Adds the head times the derivatives of the samples by the position to `down` and `right`, and with `values` the head
// times the samples to these.
template <class T>
void add_slopes(const Points<T>& p, const T* plane, const T* head, int64_t n, T* down, T* right, T* values) {
  for_each_vector<T>(n, [&](auto d, int64_t i) {
    const auto g = hn::LoadU(d, head + i);
    const auto add = [&](const T(&weights)[4][block], T* to) {
      hn::StoreU(hn::MulAdd(g, weighted(d, p, weights, plane, i), hn::LoadU(d, to + i)), d, to + i);
    };
    add(p.down, down);
    add(p.right, right);
    if (values) add(p.weight, values);
  });
}

void FindFloat(Points<float>& p, int64_t n, int64_t h, int64_t w, bool edge, bool slopes) {
  find_pixels(p, n, h, w, edge, slopes);
}
void FindDouble(Points<double>& p, int64_t n, int64_t h, int64_t w, bool edge, bool slopes) {
  find_pixels(p, n, h, w, edge, slopes);
}
void TakeFloat(const Points<float>& p, const float* plane, int64_t n, float* out) { take(p, plane, n, out); }
void TakeDouble(const Points<double>& p, const double* plane, int64_t n, double* out) { take(p, plane, n, out); }
void SlopesFloat(const Points<float>& p, const float* plane, const float* head, int64_t n, float* down, float* right,
                 float* values) {
  add_slopes(p, plane, head, n, down, right, values);
}
void SlopesDouble(const Points<double>& p, const double* plane, const double* head, int64_t n, double* down,
                  double* right, double* values) {
  add_slopes(p, plane, head, n, down, right, values);
}

}  // namespace HWY_NAMESPACE
}  // namespace kaon::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(FindFloat);
HWY_EXPORT(FindDouble);
HWY_EXPORT(TakeFloat);
HWY_EXPORT(TakeDouble);
HWY_EXPORT(SlopesFloat);
HWY_EXPORT(SlopesDouble);

namespace {

void find(Points<float>& p, int64_t n, int64_t h, int64_t w, bool edge, bool slopes) {
  HWY_DYNAMIC_DISPATCH(FindFloat)(p, n, h, w, edge, slopes);
}
void find(Points<double>& p, int64_t n, int64_t h, int64_t w, bool edge, bool slopes) {
  HWY_DYNAMIC_DISPATCH(FindDouble)(p, n, h, w, edge, slopes);
}
void take(const Points<float>& p, const float* plane, int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(TakeFloat)(p, plane, n, out);
}
void take(const Points<double>& p, const double* plane, int64_t n, double* out) {
  HWY_DYNAMIC_DISPATCH(TakeDouble)(p, plane, n, out);
}
void add_slopes(const Points<float>& p, const float* plane, const float* head, int64_t n, float* down, float* right,
                float* values) {
  HWY_DYNAMIC_DISPATCH(SlopesFloat)(p, plane, head, n, down, right, values);
}
void add_slopes(const Points<double>& p, const double* plane, const double* head, int64_t n, double* down,
                double* right, double* values) {
  HWY_DYNAMIC_DISPATCH(SlopesDouble)(p, plane, head, n, down, right, values);
}

// Positions [first, first + n) of a segment, in pixels: down and to the right.
template <class T>
void find_positions(const SampleJob<T>& job, int64_t part, int64_t tap, int64_t first, int64_t n, T* y, T* x) {
  const T* const down = job.positions + job.position_row(part, tap, 0) + first;
  const T* const right = job.positions + job.position_row(part, tap, 1) + first;
  if (job.kind == SampleKind::grid) {
    const T steps[2] = {job.step(0), job.step(1)};
    for (int64_t k = 0; k < n; ++k) y[k] = (down[k] + 1) * steps[0], x[k] = (right[k] + 1) * steps[1];
    return;
  }
  const int64_t top = tap / job.kernel[1] * job.dilate[0] - job.pad[0];
  const int64_t left = tap % job.kernel[1] * job.dilate[1] - job.pad[1];
  int64_t row = first / job.columns, column = first % job.columns;
  for (int64_t k = 0; k < n; ++row, column = 0) {
    const T at = T(row * job.stride[0] + top);
    for (; k < n && column < job.columns; ++k, ++column) {
      y[k] = at + down[k], x[k] = T(column * job.stride[1] + left) + right[k];
    }
  }
}

// The points [first, first + n) of a segment.
template <class T>
void find_points(const SampleJob<T>& job, int64_t part, int64_t tap, int64_t first, int64_t n, bool slopes,
                 Points<T>& p) {
  find_positions(job, part, tap, first, n, p.y, p.x);
  find(p, n, job.height, job.width, job.stops_at_edges(), slopes);
}

// Weights times the mask; those of pixels that are not read stay 0.
template <class T>
void apply_mask(const SampleJob<T>& job, int64_t part, int64_t tap, int64_t first, int64_t n, T (&weights)[4][block]) {
  if (!job.mask) return;
  const T* const mask = job.mask + job.mask_row(part, tap) + first;
  for (auto& row : weights) {
    for (int64_t k = 0; k < n; ++k) row[k] = row[k] == 0 ? T(0) : row[k] * mask[k];
  }
}

// Calls body(part, tap, first point, points) for blocks of all segments, in parallel.
template <class T, class Body>
void for_each_block(RunContext& run, const SampleJob<T>& job, const Body& body) {
  const int64_t blocks = (job.points + block - 1) / block, segments = job.parts() * job.taps;
  const int64_t cost = (job.channels + 4) * std::min(job.points, block);
  run.parallel_for(segments * blocks, std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(1, cost)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t first = i % blocks * block, segment = i / blocks;
                       body(segment / job.taps, segment % job.taps, first, std::min(block, job.points - first));
                     }
                   });
}

template <class T>
void spread(const Points<T>& p, const T* head, int64_t n, T* plane) {
  for (int64_t k = 0; k < n; ++k) {
    for (int i = 0; i < 4; ++i) {
      if (p.weight[i][k] != 0) plane[p.pair[i / 2][k] + i % 2 * p.side] += p.weight[i][k] * head[k];
    }
  }
}

}  // namespace

template <class T>
void sample_forward(RunContext& run, const SampleJob<T>& job, const T* data, T* out) {
  for_each_block(run, job, [&](int64_t part, int64_t tap, int64_t first, int64_t n) {
    const Scratch scratch(sizeof(Points<T>));
    Points<T>& p = *scratch.as<Points<T>>();
    find_points(job, part, tap, first, n, false, p);
    apply_mask(job, part, tap, first, n, p.weight);
    for (int64_t c = 0; c < job.channels; ++c) {
      take(p, data + job.plane(part, c), n, out + job.result(part, c, tap) + first);
    }
  });
}

template <class T>
void sample_backward_data(RunContext& run, const SampleJob<T>& job, const T* head, T* out) {
  constexpr int64_t together = 16;  // channels that share their points
  const int64_t bundles = (job.channels + together - 1) / together;
  run.parallel_for(job.parts() * bundles, 1, [&](int64_t begin, int64_t end) {
    const Scratch scratch(sizeof(Points<T>));
    Points<T>& p = *scratch.as<Points<T>>();
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i / bundles, from = i % bundles * together, to = std::min(job.channels, from + together);
      std::fill(out + job.plane(part, from), out + job.plane(part, to), T(0));
      for (int64_t tap = 0; tap < job.taps; ++tap) {
        for (int64_t first = 0; first < job.points; first += block) {
          const int64_t n = std::min(block, job.points - first);
          find_points(job, part, tap, first, n, false, p);
          apply_mask(job, part, tap, first, n, p.weight);
          for (int64_t c = from; c < to; ++c) {
            spread(p, head + job.result(part, c, tap) + first, n, out + job.plane(part, c));
          }
        }
      }
    }
  });
}

template <class T>
void sample_backward_positions(RunContext& run, const SampleJob<T>& job, const T* head, const T* data, T* positions,
                               T* mask) {
  for_each_block(run, job, [&](int64_t part, int64_t tap, int64_t first, int64_t n) {
    const Scratch scratch(sizeof(Points<T>));
    Points<T>& p = *scratch.as<Points<T>>();
    find_points(job, part, tap, first, n, true, p);
    apply_mask(job, part, tap, first, n, p.down);
    apply_mask(job, part, tap, first, n, p.right);
    T* const down = positions + job.position_row(part, tap, 0) + first;
    T* const right = positions + job.position_row(part, tap, 1) + first;
    T* const values = mask ? mask + job.mask_row(part, tap) + first : nullptr;
    for (T* to : {down, right, values}) {
      if (to) std::fill_n(to, n, T(0));
    }
    for (int64_t c = 0; c < job.channels; ++c) {
      add_slopes(p, data + job.plane(part, c), head + job.result(part, c, tap) + first, n, down, right, values);
    }
    if (job.kind != SampleKind::grid) return;
    const T steps[2] = {job.step(0), job.step(1)};
    for (int64_t k = 0; k < n; ++k) {  // of one pixel nothing depends on the position
      down[k] = steps[0] == 0 ? T(0) : down[k] * steps[0], right[k] = steps[1] == 0 ? T(0) : right[k] * steps[1];
    }
  });
}

template void sample_forward(RunContext&, const SampleJob<float>&, const float*, float*);
template void sample_forward(RunContext&, const SampleJob<double>&, const double*, double*);
template void sample_backward_data(RunContext&, const SampleJob<float>&, const float*, float*);
template void sample_backward_data(RunContext&, const SampleJob<double>&, const double*, double*);
template void sample_backward_positions(RunContext&, const SampleJob<float>&, const float*, const float*, float*,
                                        float*);
template void sample_backward_positions(RunContext&, const SampleJob<double>&, const double*, const double*, double*,
                                        double*);

}  // namespace kaon::ops
#endif
