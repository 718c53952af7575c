// silu, mish, log_sigmoid, hard_swish, the shrinking functions, celu and threshold on CUDA.
#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/nn/activation/activation.h"
#include "kaon/ops/nn/activation/kernels/shape_value.h"

namespace kaon {

using namespace ops;
namespace {

template <class Op>
struct ShapeFn {
  Op op;
  template <class T>
  __device__ T operator()(T x) const {
    return shape_value(op, x);
  }
};

template <class Op>
void run_shape(const Op& op, KernelContext& c) {
  dispatch_float(Op::traits.name.data(), c.out().dtype, [&]<class T>() {
    cuda::elementwise(c, c.out().size(), ShapeFn<Op>{op}, c.out().as<T>(), c.in(0).as<const T>());
  });
}

}  // namespace

void ops::run_plain_activation_cuda(PlainActivation kind, KernelContext& c) {
  switch (kind) {
    case PlainActivation::silu: return run_shape(op::Silu(), c);
    case PlainActivation::mish: return run_shape(op::Mish(), c);
    case PlainActivation::log_sigmoid: return run_shape(op::LogSigmoid(), c);
    case PlainActivation::hard_swish: return run_shape(op::HardSwish(), c);
    case PlainActivation::tanh_shrink: return run_shape(op::TanhShrink(), c);
  }
}
void run_cuda(const op::HardShrink& op, KernelContext& c) { run_shape(op, c); }
void run_cuda(const op::SoftShrink& op, KernelContext& c) { run_shape(op, c); }
void run_cuda(const op::Celu& op, KernelContext& c) { run_shape(op, c); }
void run_cuda(const op::Threshold& op, KernelContext& c) { run_shape(op, c); }

}  // namespace kaon
