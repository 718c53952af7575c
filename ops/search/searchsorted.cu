// searchsorted on CUDA: a thread for each value.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/search/kernels/sorted_place.h"
#include "kaon/ops/search/search.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
struct PlaceValue {
  bool right;
  int64_t n, m;
  const T *rows, *values;
  int64_t* out;
  __device__ void operator()(int64_t i) const {
    using A = accumulate_t<T>;
    out[i] = sorted_place<A>(rows + i / m * n, n, A(values[i]), right);
  }
};

}  // namespace

void run_cuda(const op::SearchSorted& op, KernelContext& c) {
  const TensorView &sorted = c.in(0), &values = c.in(1);
  const int64_t n = sorted.shape.back(), m = sorted.shape.ndim() == 1 ? values.size() : values.shape.back();
  dispatch_number("searchsorted", values.dtype, [&]<class T>() {
    cuda::for_each(c, values.size(),
                   PlaceValue<T>{op.right, n, m, sorted.as<const T>(), values.as<const T>(), c.out().as<int64_t>()});
  });
}

}  // namespace kaon
