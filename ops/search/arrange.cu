// roll and differences on CUDA.
#include "kaon/ops/cuda/index.cuh"
#include "kaon/ops/search/kernels/difference.h"
#include "kaon/ops/search/kernels/rolled.h"
#include "kaon/ops/search/search.h"

namespace kaon {

using namespace ops;
namespace {

struct RolledElement {
  Rolled rolled;
  __device__ int64_t operator()(int64_t i) const {
    const int64_t row = rolled.row_elements(), r = i / row, from = i - r * row - rolled.wrapped();
    return rolled.source_row(r) * row + (from < 0 ? from + row : from);
  }
};

template <class T>
struct DifferenceOf {
  DifferenceRows s;
  const T* x;
  T* y;
  __device__ void operator()(int64_t i) const {
    const T* const from = x + i / s.length * s.inner;
    y[i] = difference(from[i + s.inner], from[i]);
  }
};

}  // namespace

void run_cuda(const op::Difference& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  const DifferenceRows s(c.in(0).shape, normalize_axis(op.axis, c.in(0).shape.ndim(), "_difference"));
  dispatch_signed("_difference", c.out().dtype, [&]<class T>() {
    cuda::for_each(c, c.out().size(), DifferenceOf<T>{s, c.in(0).as<const T>(), c.out().as<T>()});
  });
}

void run_cuda(const op::Roll& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  cuda::index_copy(c, size_of(c.out().dtype), c.out().size(), c.in(0).data, c.out().data,
                   RolledElement{Rolled(op, c.in(0).shape)});
}

}  // namespace kaon
