// Samples of images on CUDA. A thread adds up the whole gradient of a channel of an image: without atomics the bits are
// the same each time.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/spatial/kernels/sample_job.h"

namespace kaon {

using namespace ops;
namespace {

// The four pixels of a point, with weights that are multiplied by the mask.
template <class T>
struct Corners {
  using A = accumulate_t<T>;
  AxisPair<A> y, x;
  int64_t width;
  A mask;
  __device__ Corners(const SampleJob<T>& job, int64_t part, int64_t tap, int64_t point)
      : y(job.position(part, tap, point, 0), job.height, job.stops_at_edges()),
        x(job.position(part, tap, point, 1), job.width, job.stops_at_edges()),
        width(job.width),
        mask(job.mask ? A(job.mask[job.mask_row(part, tap) + point]) : A(1)) {}
  // Calls visit(pixel, weight) with weights that are products of one of `rows`, one of `columns` and `scale`, unless
  // they are 0.
  template <class Visit>
  __device__ void visit(const A (&rows)[2], const A (&columns)[2], A scale, const Visit& visit) const {
    for (int k = 0; k < 4; ++k) {
      A weight = rows[k / 2] * columns[k % 2];
      if (weight == 0) continue;
      weight *= scale;
      if (weight != 0) visit((k < 2 ? y.low : y.high) * width + (k % 2 ? x.high : x.low), weight);
    }
  }
  template <class Visit>
  __device__ void visit(const Visit& f) const {
    visit({y.low_weight, y.high_weight}, {x.low_weight, x.high_weight}, mask, f);
  }
  __device__ A sum(const A (&rows)[2], const A (&columns)[2], A scale, const T* plane) const {
    A sum = 0;
    visit(rows, columns, scale, [&](int64_t pixel, A weight) { sum += weight * A(plane[pixel]); });
    return sum;
  }
  __device__ A value(const T* plane, A scale) const {
    return sum({y.low_weight, y.high_weight}, {x.low_weight, x.high_weight}, scale, plane);
  }
  __device__ A down(const T* plane) const {
    return sum({y.low_slope, y.high_slope}, {x.low_weight, x.high_weight}, mask, plane);
  }
  __device__ A right(const T* plane) const {
    return sum({y.low_weight, y.high_weight}, {x.low_slope, x.high_slope}, mask, plane);
  }
};

template <class T>
struct TakeSamples {
  SampleJob<T> job;
  const T* data;
  T* out;
  __device__ void operator()(int64_t e) const {
    const int64_t point = e % job.points, tap = e / job.points % job.taps, plane = e / job.points / job.taps;
    const int64_t part = plane / job.channels, channel = plane % job.channels;
    const Corners<T> corners(job, part, tap, point);
    out[job.result(part, channel, tap) + point] = T(corners.value(data + job.plane(part, channel), corners.mask));
  }
};

// All samples of one channel of a part: sums are in `out`, or beside it in float for 16-bit floats.
template <class T>
struct SpreadHeads {
  using A = accumulate_t<T>;
  SampleJob<T> job;
  const T* head;
  A* sums;
  T* out;
  __device__ void operator()(int64_t plane) const {
    const int64_t part = plane / job.channels, channel = plane % job.channels, area = job.area();
    A* const to = sums + plane * area;
    for (int64_t i = 0; i < area; ++i) to[i] = 0;
    for (int64_t tap = 0; tap < job.taps; ++tap) {
      const T* const heads = head + job.result(part, channel, tap);
      for (int64_t point = 0; point < job.points; ++point) {
        const A each = A(heads[point]);
        Corners<T>(job, part, tap, point).visit([&](int64_t pixel, A weight) { to[pixel] += weight * each; });
      }
    }
    if constexpr (sizeof(T) != sizeof(A)) {
      for (int64_t i = 0; i < area; ++i) out[plane * area + i] = T(to[i]);
    }
  }
};

// The gradients of one point's position and mask, from all channels of the part.
template <class T>
struct SumSlopes {
  using A = accumulate_t<T>;
  SampleJob<T> job;
  const T *head, *data;
  T *positions, *masks;
  __device__ void operator()(int64_t e) const {
    const int64_t point = e % job.points, tap = e / job.points % job.taps, part = e / job.points / job.taps;
    const Corners<T> corners(job, part, tap, point);
    A down = 0, right = 0, values = 0;
    for (int64_t c = 0; c < job.channels; ++c) {
      const T* const plane = data + job.plane(part, c);
      const A each = A(head[job.result(part, c, tap) + point]);
      down += each * corners.down(plane), right += each * corners.right(plane);
      if (masks) values += each * corners.value(plane, A(1));
    }
    const A steps[2] = {job.step(0), job.step(1)};  // of one pixel nothing depends on the position
    positions[job.position_row(part, tap, 0) + point] = T(steps[0] == 0 ? A(0) : down * steps[0]);
    positions[job.position_row(part, tap, 1) + point] = T(steps[1] == 0 ? A(0) : right * steps[1]);
    if (masks) masks[job.mask_row(part, tap) + point] = T(values);
  }
};

}  // namespace

template <SamplePart P>
void run_cuda(const op::SampleOp<P>& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  dispatch_float(op.traits.name.data(), c.out().dtype, [&]<class T>() {
    constexpr int at = P == SamplePart::backward_positions ? 2 : 1;  // of the positions
    const Shape& data = P == SamplePart::backward_data ? c.out().shape : c.in(at - 1).shape;
    const T* const mask = op.kind == SampleKind::modulated ? c.in(at + 1).template as<const T>() : nullptr;
    const SampleJob<T> job(op, data, c.in(at).shape, c.in(at).template as<const T>(), mask);
    const T* const first = c.in(0).template as<const T>();
    T* const out = c.out().template as<T>();
    if constexpr (P == SamplePart::forward) {
      cuda::for_each(c, c.out().size(), TakeSamples<T>{job, first, out});
    } else if constexpr (P == SamplePart::backward_data) {
      using A = accumulate_t<T>;
      void* const sums = sizeof(T) == sizeof(A) ? out : c.run.workspace(size_t(c.out().size()) * sizeof(A));
      cuda::for_each(c, job.parts() * job.channels, SpreadHeads<T>{job, first, static_cast<A*>(sums), out});
    } else {
      T* const of_mask = mask ? c.out(1).template as<T>() : nullptr;
      cuda::for_each(c, job.parts() * job.taps * job.points,
                     SumSlopes<T>{job, first, c.in(1).template as<const T>(), out, of_mask});
    }
  });
}

template void run_cuda(const op::SampleImages&, KernelContext&);
template void run_cuda(const op::BackwardSampleImagesData&, KernelContext&);
template void run_cuda(const op::BackwardSampleImagesPositions&, KernelContext&);

}  // namespace kaon
