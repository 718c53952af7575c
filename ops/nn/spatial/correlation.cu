// Correlation on CUDA: a thread for each result, and for each pixel of a gradient.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/spatial/kernels/correlation_job.h"

namespace kaon {

using namespace ops;
namespace {

// A pixel of the padded images; 0 in the padding.
template <class T>
__device__ accumulate_t<T> pixel(const CorrelationJob& job, const T* plane, int64_t y, int64_t x) {
  y -= job.pad, x -= job.pad;
  const bool inside = y >= 0 && y < job.height && x >= 0 && x < job.width;
  return inside ? accumulate_t<T>(plane[y * job.width + x]) : accumulate_t<T>(0);
}

template <class T>
struct CorrelationValue {
  using A = accumulate_t<T>;
  CorrelationJob job;
  const T *one, *two;
  T* out;
  __device__ void operator()(int64_t e) const {
    const int64_t j = e % job.columns, i = e / job.columns % job.rows, moved = e / job.columns / job.rows;
    const int64_t q = moved % job.across, p = moved / job.across % job.across;
    const int64_t image = moved / job.across / job.across, area = job.height * job.width;
    A sum = 0;
    for (int64_t k = 0; k < job.terms(); ++k) {
      const int64_t plane = (image * job.channels + k / (job.kernel * job.kernel)) * area;
      const int64_t y = i * job.stride1 + job.reach + k / job.kernel % job.kernel;
      const int64_t x = j * job.stride1 + job.reach + k % job.kernel;
      sum += job.term(pixel(job, one + plane, y, x), pixel(job, two + plane, y + job.shift(p), x + job.shift(q)));
    }
    out[e] = T(sum / A(job.divisor()));
  }
};

// One pixel of the gradient of one image, `second` of data2.
template <class T>
struct CorrelationGradient {
  using A = accumulate_t<T>;
  CorrelationJob job;
  bool second;
  const T *head, *one, *two;
  T* out;
  // The result whose element `element` of a patch is at `at`; -1: there is none.
  __device__ int64_t result(int64_t at, int64_t element, int64_t count) const {
    const int64_t from = at - job.reach - element;
    return from >= 0 && from % job.stride1 == 0 && from / job.stride1 < count ? from / job.stride1 : -1;
  }
  __device__ void operator()(int64_t e) const {
    const int64_t own_x = e % job.width, own_y = e / job.width % job.height, plane = e / job.width / job.height;
    const int64_t image = plane / job.channels, from = plane * job.height * job.width;
    A sum = 0;
    for (int64_t moved = 0; moved < job.across * job.across; ++moved) {
      const int64_t down = job.shift(moved / job.across), right = job.shift(moved % job.across);
      const int64_t y = own_y + job.pad - (second ? down : 0), x = own_x + job.pad - (second ? right : 0);
      const A a = pixel(job, one + from, y, x), b = pixel(job, two + from, y + down, x + right);
      const A slope = job.slope(a, b, second);
      for (int64_t h = 0; h < job.kernel; ++h) {
        const int64_t i = result(y, h, job.rows);
        for (int64_t w = 0; w < job.kernel && i >= 0; ++w) {
          const int64_t j = result(x, w, job.columns);
          if (j < 0) continue;
          sum += A(head[((image * job.across * job.across + moved) * job.rows + i) * job.columns + j]) * slope;
        }
      }
    }
    out[e] = T(sum / A(job.divisor()));
  }
};

}  // namespace

void run_cuda(const op::Correlation& op, KernelContext& c) {
  dispatch_float("Correlation", c.out().dtype, [&]<class T>() {
    cuda::for_each(c, c.out().size(),
                   CorrelationValue<T>{CorrelationJob(op, c.in(0).shape), c.in(0).as<const T>(), c.in(1).as<const T>(),
                                       c.out().as<T>()});
  });
}

void run_cuda(const op::BackwardCorrelation& op, KernelContext& c) {
  dispatch_float("_backward_Correlation", c.in(0).dtype, [&]<class T>() {
    for (int i = 0; i < 2; ++i) {
      T* const out = c.out(i).as<T>();
      if (!out) continue;
      cuda::for_each(c, c.in(1).size(),
                     CorrelationGradient<T>{CorrelationJob(op, c.in(1).shape), i == 1, c.in(0).as<const T>(),
                                            c.in(1).as<const T>(), c.in(2).as<const T>(), out});
    }
  });
}

}  // namespace kaon
