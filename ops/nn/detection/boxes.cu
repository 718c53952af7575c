// box_iou, box_decode and box_encode on CUDA.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/nn/detection/kernels/box_values.h"

namespace kaon {

using namespace ops;

void run_cuda(const op::BoxIou& op, KernelContext& c) {
  dispatch_float("_contrib_box_iou", c.out().dtype, [&]<class T>() {
    cuda::for_each(
        c, c.out().size(),
        BoxIouValue<T>{c.in(1).size() / 4, op.format, c.in(0).as<const T>(), c.in(1).as<const T>(), c.out().as<T>()});
  });
}

void run_cuda(const op::BoxDecode& op, KernelContext& c) {
  dispatch_float("_contrib_box_decode", c.out().dtype, [&]<class T>() {
    cuda::for_each(
        c, c.out().size() / 4,
        BoxDecodeValue<T>{op, c.in(0).shape[1], c.in(0).as<const T>(), c.in(1).as<const T>(), c.out().as<T>()});
  });
}

void run_cuda(const op::BoxEncode&, KernelContext& c) {
  dispatch_float("_contrib_box_encode", c.in(0).dtype, [&]<class T>() {
    const auto in = [&](int i) { return c.in(i).as<const T>(); };
    cuda::for_each(c, c.in(0).size(),
                   BoxEncodeValue<T>{c.in(0).shape[1], c.in(3).shape[1], in(0), in(1), in(2), in(3), in(4), in(5),
                                     c.out(0).as<T>(), c.out(1).as<T>()});
  });
}

}  // namespace kaon
