// Sums of products of levels with int8 by instructions that sum four products of bytes at once (AVX-512's VNNI), or two
// of int16: a part of an image with its border, channels innermost, with filters of a layout of their own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kaon/ops/nn/conv/kernels/conv_geometry.h"

namespace kaon::ops {

// The bytes of an image with border that one result reads: runs of consecutive ones. Distances in bytes. `level`:
// the bytes of one level.
struct Int8Patch {
  int64_t line = 0;                                              // between rows of the image
  int64_t rows = 1, columns = 1, length = 0;                     // runs, and the bytes of each
  int64_t row_stride = 0, column_stride = 0;                     // between runs
  int64_t step_y = 0, step_x = 0;                                // between results
  explicit Int8Patch(const ConvGeometry& g, int64_t level = 1);  // two axes, one group
  int64_t quads() const { return (length + 3) / 4; }  // of a run: the last one has weights of 0 beyond its end
  int64_t runs() const { return rows * columns; }
};

// Whether this processor has the instructions of int8_direct.
bool has_int8_direct();

constexpr int64_t int8_lanes = 16;    // filters of a vector
constexpr int64_t int8_overread = 4;  // bytes that may be read after a run

constexpr int64_t int8_filters = 64;  // of a block of int8_direct: four vectors

// The bytes of packed filters.
size_t int8_packed_bytes(const Int8Patch& patch, int64_t filters);
// From int8 (filters, channels, taps): by blocks of so many filters, then by runs and quads, 4 bytes of each filter
// together, which are four int8 or two int16.
template <class T>
void int8_pack(const ConvGeometry& g, const int8_t* weights, int64_t block, std::byte* packed);
// sums[i * stride + f] for the results [first, first + count) of rows of `width`, with filter + f for f < filters,
// which are of one block of int8_filters. `image`: what the result 0 reads begins there. `start`: what each filter's
// sum starts at, or null.
void int8_direct(const Int8Patch& patch, const uint8_t* image, const std::byte* packed, int64_t width, int64_t first,
                 int64_t count, int64_t filter, int64_t filters, const int32_t* start, int32_t* sums, int64_t stride);
// The same for levels of int16, on every processor. `patch`: made for levels of two bytes. The filters are packed as
// int16 in blocks of int8_lanes, and are of one block.
void int8_direct_pairs(const Int8Patch& patch, const int16_t* image, const std::byte* packed, int64_t width,
                       int64_t first, int64_t count, int64_t filter, int64_t filters, int32_t* sums, int64_t stride);

}  // namespace kaon::ops
