// ConvStrategy: how a convolution is computed.
#pragma once

#include <optional>
#include <span>

#include "kaon/engine/error.h"
#include "kaon/ops/kernels/image_layout.h"
#include "kaon/ops/nn/conv/kernels/conv_partition.h"
#include "kaon/ops/nn/conv/kernels/conv_winograd.h"
#include "kaon/ops/view.h"

namespace kaon::ops {

// oneDNN's direct convolution; Winograd's algorithm (conv_winograd.h); direct sums for few channels (conv_direct.h);
// for the data's gradient a matrix product and col2im (conv_gemm_col2im.h).
enum class ConvAlgorithm { onednn, winograd, direct, gemm_col2im };

// Layouts that a primitive may work in; none: left to oneDNN.
struct ConvLayouts {
  std::optional<ImageLayout> in, out;
};

// The algorithm, the layouts in which it works, and the partition of the work. A value. It follows from the sizes, the
// layouts of the images outside and the variant alone: the same call gives the same bits. conv_set() makes what it
// needs.
struct ConvStrategy {
  ConvAlgorithm algorithm = ConvAlgorithm::onednn;
  WinogradPartition winograd{};  // of that algorithm, which uses none of the members below
  ConvPartition partition{};
  std::span<const ConvLayouts> layouts{};  // of oneDNN's, in the order in which they are tried
  bool is_chosen = false;                  // by the caller: no other strategy may be tried

  // By rules that were measured. With `winograd` that algorithm may be taken.
  static ConvStrategy by_rules(ConvKind kind, const ConvGeometry& g, ImageLayout in, ImageLayout out, bool winograd);
  // One of conv_variants(). Throws Error where there is none for these sizes and layouts.
  static ConvStrategy of_variant(ConvKind kind, const ConvGeometry& g, ImageLayout in, ImageLayout out,
                                 uint8_t variant);
};

// Each layout of the primitives and each other algorithm, with each partition of the batch that may pay.
Variants conv_variants(ConvKind kind, const ConvGeometry& g, bool winograd);

// To be thrown where a variant that was asked for does not exist.
Error no_conv_variant();

}  // namespace kaon::ops
