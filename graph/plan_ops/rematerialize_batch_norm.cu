#include "kaon/graph/plan_ops/rematerialize_batch_norm.h"

#include "kaon/ops/nn/norm/kernels/channel_affine.cuh"

namespace kaon {

using namespace graph;
namespace {

template <class A>
struct UseStatistics {
  cuda::NumberArray used_mean, inverse;
  cuda::ScaleChannels<A> channels;
  A* mean;
  __device__ void operator()(int64_t i) const {
    mean[i] = A(used_mean.real(i));
    channels.set(i, A(inverse.real(i)));
  }
};

}  // namespace

void run_cuda(const op::RematerializeBatchNorm& op, KernelContext& c) {
  const ChannelSizes s = channel_sizes(c.in(0), op.axis);
  dispatch_float("_rematerialize_batch_norm", c.in(0).dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    const auto array = [&] { return cuda::per_channel<A>(c, s); };
    A *const mean = array(), *const scale = array(), *const shift = array();
    const cuda::NumberArray gamma(op.fix_gamma ? TensorView() : c.in(1));
    cuda::for_each(c, s.channels,
                   UseStatistics<A>{cuda::NumberArray(c.in(3)),
                                    cuda::NumberArray(c.in(4)),
                                    {gamma, cuda::NumberArray(c.in(2)), scale, shift},
                                    mean});
    cuda::channel_affine<T>(c, s, nullptr, c.in(0).as<T>(), mean, nullptr, scale, shift, c.out().as<T>());
  });
}

}  // namespace kaon
