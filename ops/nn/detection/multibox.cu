// MultiBox on CUDA. MultiBoxTarget is a thread for each sample: its matches follow from each other.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/detection/kernels/multibox_values.h"

namespace kaon {

using namespace ops;

void run_cuda(const op::MultiBoxPrior& op, KernelContext& c) {
  dispatch_float("_contrib_MultiBoxPrior", c.out().dtype, [&]<class T>() {
    cuda::for_each(c, c.out().size() / 4, PriorValue<T>{op, c.in(0).shape[2], c.in(0).shape[3], c.out().as<T>()});
  });
}

void run_cuda(const op::MultiBoxRows& op, KernelContext& c) {
  dispatch_float("_multibox_rows", c.out().dtype, [&]<class T>() {
    const Shape& probability = c.in(0).shape;
    cuda::for_each(c, c.out().size() / 6,
                   DetectionValue<T>{op, probability[1], probability[2], c.in(0).as<const T>(), c.in(1).as<const T>(),
                                     c.in(2).as<const T>(), c.out().as<T>()});
  });
}

void run_cuda(const op::MultiBoxTarget& op, KernelContext& c) {
  dispatch_float("_contrib_MultiBoxTarget", c.in(0).dtype,
                 [&]<class T>() { cuda::for_each(c, c.in(1).shape[0], TargetSample<T>(op, c)); });
}

}  // namespace kaon
