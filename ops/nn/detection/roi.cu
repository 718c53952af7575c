// ROIAlign and ROIPooling on CUDA. Gradients are gathered, a thread for each pixel: without atomics the bits are the
// same each time.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/detection/kernels/roi_values.h"

namespace kaon {

using namespace ops;

void run_cuda(const op::ROIAlign& op, KernelContext& c) {
  dispatch_float("_contrib_ROIAlign", c.out().dtype, [&]<class T>() {
    const AlignJob<T> job(op, c.in(0).shape, c.out().shape, c.in(1).as<const T>());
    cuda::for_each(c, c.out().size(), AlignValue<T>{job, c.in(0).as<const T>(), c.out().as<T>()});
  });
}

void run_cuda(const op::BackwardROIAlign& op, KernelContext& c) {
  dispatch_float("_backward_ROIAlign", c.out().dtype, [&]<class T>() {
    const AlignJob<T> job(op, op.shape, c.in(0).shape, c.in(1).as<const T>());
    cuda::for_each(c, c.out().size(), AlignGradient<T>{job, c.in(0).as<const T>(), c.out().as<T>()});
  });
}

void run_cuda(const op::ROIPooling& op, KernelContext& c) {
  dispatch_float("ROIPooling", c.in(0).dtype, [&]<class T>() {
    const Shape &x = c.in(0).shape, &pooled = op.pooled_size;
    cuda::for_each(
        c, c.in(1).shape[0] * x[1] * pooled[0] * pooled[1],
        RoiPoolValue<T>{x[0], x[1], x[2], x[3], pooled[0], pooled[1], accumulate_t<T>(op.spatial_scale),
                        c.in(0).as<const T>(), c.in(1).as<const T>(), c.out(0).as<T>(), c.out(1).as<int64_t>()});
  });
}

void run_cuda(const op::BackwardROIPooling& op, KernelContext& c) {
  dispatch_float("_backward_ROIPooling", c.out().dtype, [&]<class T>() {
    cuda::for_each(c, c.out().size(),
                   RoiPoolGradient<T>{op.shape[0], op.shape[1], op.shape[2] * op.shape[3], c.in(1).shape[0],
                                      c.in(0).shape[2] * c.in(0).shape[3], c.in(0).as<const T>(), c.in(1).as<const T>(),
                                      c.in(2).as<const int64_t>(), c.out().as<T>()});
  });
}

}  // namespace kaon
