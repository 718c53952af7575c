// Winograd's minimal filtering F(4 x 4, 3 x 3), F(2 x 2, 3 x 3) and F(2 x 2, 5 x 5): its three transforms and the
// products between them, on one thread.
//
// A tile of 4 x 4 results of 3 x 3 taps takes 36 products of numbers instead of 144, and weights of 36 numbers instead
// of 9; one of 2 x 2 takes 16 instead of 36, and 16; one of 2 x 2 with 5 x 5 taps 36 instead of 100, and 36 instead of
// 25 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016). Those of 36 products evaluate the
// polynomials behind them at 0, +-1/sqrt(2), +-sqrt(2) and infinity: rounding errors are then a quarter of those with
// the usual 0, +-1, +-2.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kaon/ops/kernels/epilogue.h"

namespace kaon::ops::winograd {

constexpr int64_t block = 16;  // channels that are consecutive
constexpr int64_t panel = 32;  // output channels that are multiplied together

// F(size x size, taps x taps): 4 or 2 with 3, 2 with 5.
struct Filtering {
  int64_t size, taps;
  constexpr int64_t side() const { return size + taps - 1; }    // of the window that a tile reads
  constexpr int64_t points() const { return side() * side(); }  // products per tile and pair of channels
};

constexpr int64_t panels(int64_t out_channels) { return (out_channels + panel - 1) / panel; }

// Images with channels last, or in blocks that are full. Strides in floats.
struct Images {
  float* data;
  int64_t height, width, image_stride, position_stride, block_stride;
};

// Filters. Strides in floats: of output channels, input channels and taps, which are in order of rows.
// For the gradient of the images, in which input and output change places, the taps are reversed.
struct Filters {
  const float* data;
  int64_t out_stride, in_stride, tap_stride;
};

// Panel number `number` of the filters as products read it, on whole cache lines: point, input channel, 32 output
// channels, of which the last ones may be zeros.
void transform_filters(const Filters& filters, const Filtering& filtering, int64_t in_channels, int64_t out_channels,
                       int64_t number, float* transformed);

// Tiles [first, first + count) of the results of images, in order of image, row and column.
struct Tiles {
  Filtering filtering;
  int64_t first, count;
  int64_t pad_y, pad_x;  // zeros before an input image
};

// Channels with those that fill the last block.
constexpr int64_t in_blocks(int64_t channels) { return (channels + block - 1) / block * block; }

// Floats between the numbers of a point and of the next one: never a multiple of a page, whose lines would share a few
// places of the first cache.
constexpr int64_t input_stride(int64_t count, int64_t in_channels) { return count * in_blocks(in_channels) + block; }
constexpr int64_t product_stride(int64_t count) { return count * panel + block; }

// The transformed input of a block of tiles: points x input_stride() floats, as point, block of channels, tile,
// channel. `out` gives the number of tiles of an image; its data is not read.
void transform_input(const Images& in, const Images& out, const Tiles& tiles, int64_t in_channels, float* transformed);

// For each point, the products with one panel of the weights: points x product_stride() floats, as point, tile,
// channel.
void multiply(const float* input, const float* weights, const Tiles& tiles, int64_t in_channels, float* products);

// Stores the results of channels [channel, channel + panel), fewer at the end, after the epilogue without its sigmoid
// or tanh, which the caller applies. Addends have the results' layout, and may be overwritten by them.
void transform_output(const float* products, const Images& out, const Tiles& tiles, int64_t channel,
                      int64_t out_channels, const Epilogue<float>& epilogue);

}  // namespace kaon::ops::winograd
