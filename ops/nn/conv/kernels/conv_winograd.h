// Convolutions by Winograd's algorithm: when it pays, its partition of the work, and the forward computation.
#pragma once

#include <array>

#include "kaon/ops/kernels/epilogue.h"
#include "kaon/ops/kernels/onednn.h"
#include "kaon/ops/nn/conv/kernels/conv_geometry.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// Convolutions of 3 x 3 taps with step one, of at least 32 channels in whole blocks of 16, which have positions enough
// for their tiles and their transformed weights: 1.5 to 2.8 times as fast as direct ones, with a larger rounding error
// (see HybridizeOptions::winograd).
bool winograd_pays(const ConvGeometry& g);

// Tiles of 2 x 2 or 4 x 4 results in how many blocks, and each of these in how many slices of the output channels. A
// slice transforms the block's input again. Fixed by the sizes.
struct WinogradPartition {
  int64_t tile = 4, blocks = 1, slices = 1;
  friend bool operator==(const WinogradPartition&, const WinogradPartition&) = default;
};
WinogradPartition winograd_partition(const ConvGeometry& g);
// The partitions that may pay, each once; the one of the rules first.
struct WinogradPartitions {
  std::array<WinogradPartition, 16> all{};
  int count = 0;
  explicit WinogradPartitions(const ConvGeometry& g);
};

struct WinogradPlan {
  WinogradPartition partition;
  onednn::Desc given, transformed;  // the weights as they are given, and as they are used: for PackedWeights
  onednn::Primitive to_taps_last;   // of weights that are given channels last; else empty
  WinogradPlan(const ConvGeometry& g, const WinogradPartition& partition);
};

// y = x * w and then the epilogue, whose addend has y's layout and may be y. x and y are channels_last or blocked.
void winograd_forward(KernelContext& c, const ConvGeometry& g, const WinogradPlan& plan, const TensorView& x,
                      const float* w, const TensorView& y, const Epilogue<float>& epilogue);

}  // namespace kaon::ops
