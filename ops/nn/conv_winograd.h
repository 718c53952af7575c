// Winograd's algorithm for convolutions: where it pays, and how a batch is cut for it.
#pragma once

#include "kaon/ops/nn/conv_geometry.h"

namespace kaon {

// Convolutions of 3 x 3 taps with step one over tiles of 4 x 4 or 2 x 2 results, in products of transformed tiles: 2 to
// 2.3 times faster than the direct ones, with a larger rounding error (see HybridizeOptions::winograd). oneDNN has it
// for AVX-512, in blocks of 16 channels; never unless it is asked for by name. With fewer than 32 channels it gains
// nothing.
bool winograd_pays(const ConvGeometry& g);

// Images per piece; where these are single ones, slices of the output channels, or parts of the first spatial axis.
// Fixed by the sizes.
struct ConvCut {
  int64_t piece = 1, slices = 1, parts = 1;
  friend bool operator==(const ConvCut&, const ConvCut&) = default;
};
ConvCut winograd_cut(const ConvGeometry& g);

}  // namespace kaon
