#include "kaon/ops/kernels/finish.h"
#include "kaon/ops/nn/conv/conv.h"
#include "kaon/ops/nn/conv/cuda/dnn.h"
#include "kaon/ops/nn/conv/kernels/conv_window.h"

namespace kaon {

using namespace ops;

void run_cuda(const op::Deconvolution& op, KernelContext& c) {
  const TensorView& x = c.in(0);
  const TensorView& y = c.out();
  const cuda::ConvSetup setup{.geometry = make_geometry(y.shape, x.shape, op.kernel, op.stride, op.dilate,
                                                        extent_of(op, x.shape).pad, op.num_group),
                              .dtype = y.dtype,
                              .workspace = op.workspace};
  cuda::conv_backward_data(c, setup, x.data, c.in(1).data, y.data);
  if (op.no_bias) return;
  cuda::finish(c,
               {.x = y.data,
                .y = y.data,
                .dtype = y.dtype,
                .n = y.size(),
                .inner = setup.geometry.in_positions(),
                .channels = setup.geometry.in_channels},
               {.shift = c.in(2).data});
}

}  // namespace kaon
