#include "kaon/ops/kernels/finish.h"
#include "kaon/ops/nn/conv/conv.h"
#include "kaon/ops/nn/conv/cuda/dnn.h"
#include "kaon/ops/nn/conv/kernels/conv_layout.h"
#include "kaon/ops/nn/conv/kernels/conv_window.h"

namespace kaon {

using namespace ops;

void run_cuda(const op::Deconvolution& op, KernelContext& c) {
  const TensorView x = as_images(c.in(0), op.layout), y = as_images(c.out(), op.layout);
  op::Deconvolution padded = op;
  padded.pad = extent_of(op, x.shape).pad;
  const cuda::ConvSetup setup{.geometry = geometry_of(padded, y.shape, x.shape),
                              .dtype = y.dtype,
                              .layout = y.layout,
                              .workspace = op.workspace};
  cuda::conv_backward_data(c, setup, x.data, c.in(1).data, y.data);
  if (op.no_bias) return;
  cuda::finish(c,
               {.x = y.data,
                .y = y.data,
                .dtype = y.dtype,
                .n = y.size(),
                .inner = y.layout == Layout::channels_last ? 1 : setup.geometry.in_positions(),
                .channels = setup.geometry.in_channels},
               {.shift = c.in(2).data});
}

}  // namespace kaon
