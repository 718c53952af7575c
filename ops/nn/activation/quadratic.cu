// quadratic on CUDA.
#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/math/scalar_math.h"
#include "kaon/ops/nn/activation/activation.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
struct QuadraticFn {
  T a, b, c;
  __device__ T operator()(T x) const { return quadratic_value(x, a, b, c); }
};

}  // namespace

void run_cuda(const op::Quadratic& op, KernelContext& c) {
  dispatch_float("_contrib_quadratic", c.out().dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    cuda::elementwise(c, c.out().size(), QuadraticFn<A>{A(op.a), A(op.b), A(op.c)}, c.out().as<T>(),
                      c.in(0).as<const T>());
  });
}

}  // namespace kaon
