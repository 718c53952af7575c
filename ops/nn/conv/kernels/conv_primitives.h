// ConvSet: what a strategy needs to run: oneDNN's primitives, their layouts, reorders of the weights.
#pragma once

#include <optional>
#include <vector>

#include "kaon/ops/kernels/onednn.h"
#include "kaon/ops/nn/conv/kernels/conv_strategy.h"

namespace kaon::ops {

// A part of the first spatial axis of every image, with its own primitive unless the algorithm has none.
struct ConvPiece {
  ConvRows rows;
  onednn::Primitive run;
};

struct ConvSet : KernelState {
  ConvAlgorithm algorithm = ConvAlgorithm::onednn;
  std::optional<WinogradPlan> winograd;  // of that algorithm, which needs nothing of the rest

  int64_t piece = 0;             // images per piece
  int64_t slices = 1;            // forward: parts of the output channels, each with its own primitives
  std::vector<ConvPiece> parts;  // forward: of each image, in place of `full`; most often none
  onednn::Primitive full;        // forward: x w y [bias]; backward_data: dy w dx; backward_weight: dy x dw [db]
  onednn::Primitive tail;        // for the last piece when it is smaller
  ImageLayout in{}, out{};       // layouts of x and y in which the algorithm works
  size_t weight_bytes = 0;       // of the weights of a slice in their layout
  onednn::Primitive to_inner;    // weights as they are given into that layout; empty when it is theirs
  onednn::Primitive to_given;    // the reverse, for weight gradients
  int staged = 0;                // how many of x and y are converted

  std::string implementation() const override;
  int reorders() const override { return staged; }
};

// The set for these sizes with images outside in layouts `in` and `out`; from the plan node's slot or the cache.
onednn::CacheHandle<ConvSet> conv_set(const KernelContext& c, ConvKind kind, const ConvGeometry& g, ImageLayout in,
                                      ImageLayout out, bool bias);

}  // namespace kaon::ops
