// polygamma on CUDA.
#include "kaon/ops/elementwise/elementwise.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/elementwise/kernels/polygamma_value.h"

namespace kaon {

using namespace ops;
namespace {

struct PolygammaFn {
  int n;
  template <class T>
  __device__ T operator()(T x) const {
    return T(polygamma_value(n, double(x)));
  }
};

}  // namespace

void run_cuda(const op::Polygamma& op, KernelContext& c) {
  dispatch_float("polygamma", c.out().dtype, [&]<class T>() {
    cuda::elementwise(c, c.out().size(), PolygammaFn{op.n}, c.out().as<T>(), c.in(0).as<const T>());
  });
}

}  // namespace kaon
