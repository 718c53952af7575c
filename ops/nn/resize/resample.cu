// Images at another size on CUDA.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/resize/kernels/resample_axis.h"

namespace kaon {

using namespace ops;
namespace {

// What target t of an axis is made of.
struct TargetAxis {
  ResampleAxis axis;
  bool transposed;

  __device__ int64_t targets() const { return transposed ? axis.in : axis.out; }
  __device__ int64_t sources() const { return transposed ? axis.out : axis.in; }
  __device__ ResampleAxis::Range sources_of(int64_t t) const {
    return transposed ? axis.results_of(t) : axis.pixels_of(t);
  }
  template <class Acc>
  __device__ Acc weight(int64_t t, int64_t s) const {
    return transposed ? axis.weight<Acc>(s, t) / Acc(axis.divisor(s)) : axis.weight<Acc>(t, s);
  }
  __device__ int64_t divisor(int64_t t) const { return transposed ? 1 : axis.divisor(t); }
};

template <class T>
__global__ void __launch_bounds__(cuda::block)
    resample_kernel(int64_t n, int64_t inner, TargetAxis rows, TargetAxis columns, const T* x, T* y) {
  using Acc = accumulate_t<T>;
  for (int64_t i = cuda::first_item(); i < n; i += cuda::item_step()) {
    const int64_t at = i % inner, pixel = i / inner;
    const int64_t column = pixel % columns.targets(), line = pixel / columns.targets();
    const int64_t row = line % rows.targets(), plane = line / rows.targets();
    const ResampleAxis::Range down = rows.sources_of(row), across = columns.sources_of(column);
    Acc total = 0;
    for (int64_t s = down.begin; s < down.end; ++s) {
      const Acc w = rows.weight<Acc>(row, s);
      if (w == Acc(0) && rows.transposed) continue;
      const T* const from = x + ((plane * rows.sources() + s) * columns.sources()) * inner + at;
      Acc sum = 0;
      for (int64_t k = across.begin; k < across.end; ++k) {
        const Acc v = columns.weight<Acc>(column, k);
        if (v == Acc(0) && columns.transposed) continue;
        sum += v * Acc(from[k * inner]);
      }
      total += w * sum;
    }
    y[i] = T(total / Acc(rows.divisor(row)) / Acc(columns.divisor(column)));
  }
}

}  // namespace

void run_cuda(const op::Resample& op, KernelContext& c) {
  const ResampleJob job(op, c.in(0), c.out());
  const TargetAxis rows{job.rows, job.transposed}, columns{job.columns, job.transposed};
  dispatch_float("_resample", c.out().dtype, [&]<class T>() {
    const int64_t n = c.out().size();
    if (n == 0) return;
    cuda::launch(c, resample_kernel<T>, cuda::blocks_for(n), unsigned(cuda::block), n, job.inner, rows, columns,
                 c.in(0).as<const T>(), c.out().as<T>());
  });
}

}  // namespace kaon
