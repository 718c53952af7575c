#include "kaon/graph/plan_ops/batch_norm_affine.h"

#include "kaon/ops/reduce/kernels/rows.cuh"

namespace kaon {

using namespace graph;
namespace {

struct Affine {
  double eps;
  cuda::NumberArray gamma, beta, mean, var, bias;  // gamma and bias may have no data: 1, 0
  cuda::RealTarget scale, shift;
  __device__ void operator()(int64_t i) const {
    const ChannelScale f = channel_scale(gamma.data ? gamma.real(i) : 1, beta.real(i), mean.real(i), var.real(i),
                                         bias.data ? bias.real(i) : 0, eps);
    scale.set(i, f.scale);
    shift.set(i, f.shift);
  }
};

}  // namespace

void run_cuda(const op::BatchNormAffine& op, KernelContext& c) {
  const auto in = [&](int i, bool given) { return cuda::NumberArray(given ? c.in(i) : TensorView()); };
  cuda::for_each(c, c.out().size(),
                 Affine{op.eps, in(0, !op.fix_gamma), in(1, true), in(2, true), in(3, true), in(4, !op.no_bias),
                        cuda::RealTarget(c.out(0)), cuda::RealTarget(c.out(1))});
}

}  // namespace kaon
