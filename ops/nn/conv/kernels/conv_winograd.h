// Convolutions and their gradients by Winograd's algorithm: when it pays, its partition of the work, the computations.
#pragma once

#include <array>

#include "kaon/ops/kernels/epilogue.h"
#include "kaon/ops/kernels/image_layout.h"
#include "kaon/ops/kernels/onednn.h"
#include "kaon/ops/nn/conv/kernels/conv_geometry.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// Convolutions of 3 x 3 or 5 x 5 taps with step one, of images with channels last or, where these fill blocks of 16, in
// blocks.
bool winograd_fits(ConvKind kind, const ConvGeometry& g, ImageLayout in, ImageLayout out);
// Whether one that fits gains: 3 x 3 taps with at least 32 channels in whole blocks of 16, or 5 x 5 with at least 16,
// and positions enough for their tiles and their transformed weights. Forward 1.5 to 2.8 times as fast as direct ones
// with 3 x 3 taps, 1.3 to 1.8 times with 5 x 5, with a larger rounding error (see HybridizeOptions::winograd).
bool winograd_pays(ConvKind kind, const ConvGeometry& g);

// Tiles of 2 x 2 or 4 x 4 results in how many blocks, and each of these in how many slices of the output channels. A
// slice transforms the block's input again. The gradient of the weights has no slices; its blocks are summed in order.
// Fixed by the sizes.
struct WinogradPartition {
  int64_t tile = 4, blocks = 1, slices = 1;
  friend bool operator==(const WinogradPartition&, const WinogradPartition&) = default;
};
WinogradPartition winograd_partition(ConvKind kind, const ConvGeometry& g);
// The partitions that may pay, each once; the one of the rules first.
struct WinogradPartitions {
  std::array<WinogradPartition, 16> all{};
  int count = 0;
  WinogradPartitions(ConvKind kind, const ConvGeometry& g);
};

struct WinogradPlan {
  WinogradPartition partition;
  onednn::Desc given, transformed;  // the weights as they are given, and as they are used: for PackedWeights
  WinogradPlan(ConvKind kind, const ConvGeometry& g, const WinogradPartition& partition);
};

// As conv_forward() and its gradients; images are channels_last or blocked.
void winograd_forward(KernelContext& c, const ConvGeometry& g, const WinogradPlan& plan, const TensorView& x,
                      const float* w, const TensorView& y, const Epilogue<float>& epilogue);
void winograd_backward_data(KernelContext& c, const ConvGeometry& g, const WinogradPlan& plan, const TensorView& dy,
                            const float* w, const TensorView& dx);
void winograd_backward_weight(KernelContext& c, const ConvGeometry& g, const WinogradPlan& plan, const TensorView& dy,
                              const TensorView& x, float* dw, float* db);

}  // namespace kaon::ops
