// The copy between memory layouts that the layout pass inserts.
#pragma once

#include "kaon/ops/kernels/strided_copy.h"
#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

namespace op {
// The same logical (N, C, H, W) values in the layout of the output's view. Exists in plans only.
struct Reorder {
  static constexpr OpTraits traits{.name = "_reorder", .any_layout = true, .recomputable = true, .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
};
}  // namespace op
void run_cpu(const op::Reorder& op, KernelContext& c);
void run_cuda(const op::Reorder& op, KernelContext& c);

}  // namespace kaon

namespace kaon::graph {

// Strides of an image: between blocks of channels, channels of a block, positions.
struct ImageSteps {
  int64_t block, channel, position;
  ImageSteps(Layout layout, int64_t block_size, int64_t channels, int64_t positions)
      : block(layout == Layout::channels_last ? block_size : block_size * positions),
        channel(layout == Layout::row_major ? positions : 1),
        position(layout == Layout::row_major   ? 1
                 : layout == Layout::blocked16 ? 16
                                               : channels) {}
};

// The copy of a reorder, in the order of the output.
inline StridedCopy reorder_copy(const TensorView& in, const TensorView& out) {
  const int64_t images = in.shape[0], channels = in.shape[1], positions = in.shape[2] * in.shape[3];
  const bool in_blocks = in.layout == Layout::blocked16 || out.layout == Layout::blocked16;
  const int64_t block = in_blocks ? 16 : channels;
  const ImageSteps src(in.layout, block, channels, positions), dst(out.layout, block, channels, positions);
  StridedCopy copy;
  copy.dims.push(images, channels * positions, channels * positions);
  if (out.layout == Layout::channels_last) copy.dims.push(positions, src.position, dst.position);
  copy.dims.push(in_blocks ? channels / 16 : 1, src.block, dst.block);
  if (out.layout == Layout::blocked16) copy.dims.push(positions, src.position, dst.position);
  copy.dims.push(block, src.channel, dst.channel);
  if (out.layout == Layout::row_major) copy.dims.push(positions, src.position, dst.position);
  return copy;
}

}  // namespace kaon::graph
