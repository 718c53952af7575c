#include "kaon/ops/nn/norm/kernels/channel_affine.cuh"
#include "kaon/ops/nn/norm/kernels/moving_statistics.h"

namespace kaon {

using namespace ops;
namespace {

using cuda::NumberArray;
using cuda::RealTarget;

template <class A>
struct Move {
  double eps, momentum;
  NumberArray mean, inverse, moving_mean, moving_var;
  RealTarget new_mean, new_var;
  __device__ void operator()(int64_t i) const {
    const A deviation = A(inverse.real(i));
    if (deviation < 0) return;
    new_mean.set(i, moved(A(moving_mean.real(i)), A(mean.real(i)), momentum));
    new_var.set(i, moved(A(moving_var.real(i)), variance_of(deviation, eps), momentum));
  }
};

}  // namespace

void run_cuda(const op::MoveStatistics& op, KernelContext& c) {
  dispatch_float("_move_statistics", c.in(0).dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    cuda::for_each(c, c.in(0).size(),
                   Move<A>{op.eps, op.momentum, NumberArray(c.in(2)), NumberArray(c.in(3)), NumberArray(c.in(0)),
                           NumberArray(c.in(1)), RealTarget(c.in(0)), RealTarget(c.in(1))});
  });
}

}  // namespace kaon
