// Grids of positions on CUDA.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/spatial/kernels/grid_value.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
struct GridElement {
  GridValue<T> value;
  __device__ void operator()(int64_t i) const { value(i / value.width, i % value.width); }
};

}  // namespace

void run_cuda(const op::GridGenerator& op, KernelContext& c) {
  dispatch_float("GridGenerator", c.out().dtype,
                 [&]<class T>() { cuda::for_each(c, c.out().size(), GridElement<T>{GridValue<T>(op, c)}); });
}

}  // namespace kaon
