// Convolutions of int8 and uint8 with int8, summed exactly in int32. Where the processor sums four products at once
// (VNNI): by our kernels of int8_direct.h and int8_amx.h where they have these sizes, else by oneDNN's. On other
// processors by our own of int16: there oneDNN bounds the sum of two products by int16.
#pragma once

#include <memory>
#include <vector>

#include "kaon/engine/buffer/packed_cache.h"
#include "kaon/ops/kernels/onednn.h"
#include "kaon/ops/nn/conv/kernels/conv_geometry.h"
#include "kaon/ops/nn/conv/kernels/conv_partition.h"
#include "kaon/ops/quant/kernels/int8_direct.h"

namespace kaon::ops {

// A part of the first spatial axis of every image, with its primitive.
struct Int8Piece {
  onednn::Primitive run;  // x w y; none: a kernel of our own
  ConvRows rows;
};

// What sums: oneDNN's primitives; dot products of int16; int8_direct_pairs, int8_direct and int8_amx.
enum class Int8Kernel : uint8_t { onednn, dots, pairs, quads, tiles };

// What a convolution of these sizes needs to run. A dense layer is one of a single image whose rows are its positions.
struct Int8ConvSet : KernelState {
  ConvGeometry g;                 // with the filters of a slice
  bool is_signed = false;         // the data are int8
  int64_t slices = 1;             // parts of the filters, each with its own weights
  std::vector<Int8Piece> pieces;  // of each image
  onednn::Primitive to_inner;     // the weights of a slice into the primitives' layout
  Int8Kernel kernel = Int8Kernel::onednn;
  int64_t patch = 0;  // of `dots`: products per sum, rounded up to a multiple of 32

  bool is_direct() const { return kernel >= Int8Kernel::pairs; }
  Int8Patch direct_patch() const { return Int8Patch(g, kernel == Int8Kernel::pairs ? 2 : 1); }
  size_t slice_bytes() const;  // of packed weights
  // Packs the weights of all slices, int8 (filters, channels / groups, kernel...).
  void pack(const int8_t* weights, std::byte* packed) const;
  std::string implementation() const override;
};

// Whether such a convolution takes the place of one of floats: any does where the processor sums four products at once,
// else one of two axes and one group.
bool multiplies_int8(int axes, int64_t groups);

// The set for these sizes; from the plan node's slot or the cache.
onednn::CacheHandle<Int8ConvSet> int8_conv_set(const KernelContext& c, const ConvGeometry& g, bool is_signed);

// The sums of some positions of an image: sums[p * channels + c], from the position `first` and the filter `channel`
// on.
struct Int8Sums {
  int32_t* sums;
  int64_t image, first, positions, channel, channels;
};

// Calls finish() for every part of the result, on the engine's threads. `in_rows`: the channels of a position of the
// data are together in memory, as the rows of a dense layer and images with channels last; else the images are
// row-major.
void int8_convolution(KernelContext& c, const Int8ConvSet& set, const void* data, bool in_rows, const std::byte* packed,
                      FunctionRef<void(const Int8Sums&)> finish);

}  // namespace kaon::ops
