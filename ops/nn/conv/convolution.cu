#include "kaon/ops/nn/conv/conv.h"

#include "kaon/ops/nn/conv/cuda/dnn.h"
#include "kaon/ops/nn/conv/kernels/conv_layout.h"
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
  const auto image = [&](const TensorView& view) { return as_images(view, op.layout); };
  const auto setup = [&](const TensorView& in, const TensorView& out) {
    return cuda::ConvSetup{.geometry = geometry_of(op, in.shape, out.shape),
                           .dtype = in.dtype,
                           .layout = in.layout,
                           .workspace = op.workspace};
  };
  if constexpr (P == ConvPart::forward) {
    const TensorView x = image(c.in(0)), y = image(c.out());
    cuda::conv_forward(c, setup(x, y), x.data, c.in(1).data, y.data, layer_epilogue<void>(c, op.no_bias, op.post_ops));
  } else if constexpr (P == ConvPart::backward_data) {
    const TensorView dy = image(c.in(0)), dx = image(c.out());
    cuda::conv_backward_data(c, setup(dx, dy), dy.data, c.in(1).data, dx.data);
  } else {
    const TensorView dy = image(c.in(0)), x = image(c.in(1));
    if (c.out(0).data) cuda::conv_backward_weight(c, setup(x, dy), dy.data, x.data, c.out(0).data);
    if (!op.no_bias && c.out(1).data) bias_gradient(c, dy, c.out(1));
  }
}

template void run_cuda(const op::Convolution&, KernelContext&);
template void run_cuda(const op::ConvolutionBackwardData&, KernelContext&);
template void run_cuda(const op::ConvolutionBackwardWeight&, KernelContext&);

}  // namespace kaon
