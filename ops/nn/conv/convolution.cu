#include "kaon/ops/nn/conv/conv.h"

#include "kaon/ops/nn/conv/cuda/dnn.h"
#include "kaon/ops/reduce/kernels/reduce_driver.h"

namespace kaon {

using namespace ops;
namespace {

// db = the sums of dy's channels.
void bias_gradient(KernelContext& c, const TensorView& dy, const TensorView& db) {
  const ReduceDim batch{dy.shape[0], true}, channels{dy.shape[1], false},
      positions{dy.shape.product(2, dy.shape.ndim()), true};
  const bool last = dy.layout == Layout::channels_last;
  const ReduceDim dims[] = {batch, last ? positions : channels, last ? channels : positions};
  cuda::reduce_dims(c, Combine::sum, dy, dims, false, {.data = db.data, .dtype = db.dtype});
}

}  // namespace

template <ConvPart P>
void run_cuda(const op::ConvolutionOp<P>& op, KernelContext& c) {
  const auto setup = [&](const TensorView& in, const TensorView& out) {
    return cuda::ConvSetup{
        .geometry = make_geometry(in.shape, out.shape, op.kernel, op.stride, op.dilate, op.pad, op.num_group),
        .dtype = in.dtype,
        .layout = in.layout,
        .workspace = op.workspace};
  };
  if constexpr (P == ConvPart::forward) {
    cuda::conv_forward(c, setup(c.in(0), c.out()), c.in(0).data, c.in(1).data, c.out().data,
                       layer_epilogue<void>(c, op.no_bias, op.post_ops));
  } else if constexpr (P == ConvPart::backward_data) {
    cuda::conv_backward_data(c, setup(c.out(), c.in(0)), c.in(0).data, c.in(1).data, c.out().data);
  } else {
    if (c.out(0).data) {
      cuda::conv_backward_weight(c, setup(c.in(1), c.in(0)), c.in(0).data, c.in(1).data, c.out(0).data);
    }
    if (!op.no_bias && c.out(1).data) bias_gradient(c, c.in(0), c.out(1));
  }
}

template void run_cuda(const op::Convolution&, KernelContext&);
template void run_cuda(const op::ConvolutionBackwardData&, KernelContext&);
template void run_cuda(const op::ConvolutionBackwardWeight&, KernelContext&);

}  // namespace kaon
