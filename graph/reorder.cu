#include "kaon/graph/reorder.h"

#include "kaon/ops/movement/strided_copy.cuh"

namespace kaon {

namespace {

// How far apart neighbours of an image lie: blocks of channels, channels in a block, positions.
struct Steps {
  int64_t block, channel, position;
};

Steps steps_of(Layout layout, int64_t block, int64_t channels, int64_t positions) {
  if (layout == Layout::row_major) return {block * positions, positions, 1};
  if (layout == Layout::channels_last) return {block, 1, channels};
  return {16 * positions, 1, 16};
}

}  // namespace

void run_cuda(const Reorder&, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  const int64_t images = in.shape[0], channels = in.shape[1], positions = in.shape[2] * in.shape[3];
  const bool in_blocks = in.layout == Layout::blocked16 || out.layout == Layout::blocked16;
  const int64_t block = in_blocks ? 16 : channels, blocks = block == 0 ? 0 : channels / block;
  const Steps src = steps_of(in.layout, block, channels, positions), dst = steps_of(out.layout, block, channels, positions);
  StridedCopy copy;  // in the order of the output
  copy.dims.push(images, channels * positions, channels * positions);
  if (out.layout == Layout::channels_last) copy.dims.push(positions, src.position, dst.position);
  copy.dims.push(blocks, src.block, dst.block);
  if (out.layout == Layout::blocked16) copy.dims.push(positions, src.position, dst.position);
  copy.dims.push(block, src.channel, dst.channel);
  if (out.layout == Layout::row_major) copy.dims.push(positions, src.position, dst.position);
  cuda::strided_copy(c, copy);
}

}  // namespace kaon
