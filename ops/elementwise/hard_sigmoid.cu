// hard_sigmoid on CUDA.
#include "kaon/ops/elementwise/elementwise.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/math/scalar_math.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
struct HardSigmoidFn {
  T alpha, beta;
  __device__ T operator()(T x) const { return hard_sigmoid_value(x, alpha, beta); }
};

}  // namespace

void run_cuda(const op::HardSigmoid& op, KernelContext& c) {
  dispatch_float("hard_sigmoid", c.out().dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    cuda::elementwise(c, c.out().size(), HardSigmoidFn<A>{A(op.alpha), A(op.beta)}, c.out().as<T>(),
                      c.in(0).as<const T>());
  });
}

}  // namespace kaon
