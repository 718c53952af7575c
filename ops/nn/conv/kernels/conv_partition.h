// ConvPartition: how the work of a convolution is divided into pieces for threads.
#pragma once

#include <array>
#include <vector>

#include "kaon/ops/nn/conv/kernels/conv_geometry.h"

namespace kaon::ops {

// How it works. A piece is some images of the batch. Where these are single ones, because a small batch alone gives
// work to few threads, an image is divided too: into slices of the output channels where there are few positions and
// many weights, else into parts of the first spatial axis. Follows from the sizes alone, never from the number of
// threads, which would change bits from machine to machine. A value.
struct ConvPartition {
  int64_t images = 1;  // of a piece
  int64_t slices = 1;  // forward: of the output channels
  int64_t parts = 1;   // forward: of the first spatial axis
  friend bool operator==(const ConvPartition&, const ConvPartition&) = default;

  bool divides_images() const { return slices > 1 || parts > 1; }
  // By rules that were measured; no parts.
  static ConvPartition by_rules(ConvKind kind, const ConvGeometry& g);
  // Parts, where results should still be in cache for the next computation or the batch is small, else this partition.
  // For a forward whose results are channels last or in blocks. Those of a small batch have so many rows at least, and
  // an image has so many of them at most.
  ConvPartition or_parts(const ConvGeometry& g, int64_t least_rows, int64_t most) const;
};

// Every partition that may pay, the one of the rules first.
struct ConvPartitions {
  std::array<ConvPartition, 16> all{};
  int count = 0;

  ConvPartitions(ConvKind kind, const ConvGeometry& g);

 private:
  void add(const ConvPartition& partition);
};

// The input rows that results [out, out + out_rows) of the first spatial axis need.
struct ConvRows {
  int64_t out, out_rows, in, in_rows, pad_before, pad_after;
};

// All rows.
ConvRows all_rows(const ConvGeometry& g);

// Splits the first spatial axis into `parts` of about one size; empty when a part would read nothing but the border.
std::vector<ConvRows> rows_of_parts(const ConvGeometry& g, int64_t parts);

}  // namespace kaon::ops
