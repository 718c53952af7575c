// Conversions between the memory layouts of image batches.
#pragma once

#include <cstdint>

#include "kaon/ops/view.h"

namespace kaon::ops {

// The memory layout of images that a convolution kernel takes.
enum class ImageLayout : uint8_t {
  row_major,      // image, channel, position
  channels_last,  // image, position, channel
  blocked16,      // image, channel / 16, position, 16 channels; missing channels are zero
};

constexpr ImageLayout image_layout(Layout layout) {
  switch (layout) {
    case Layout::row_major: break;
    case Layout::channels_last: return ImageLayout::channels_last;
    case Layout::blocked16: return ImageLayout::blocked16;
  }
  return ImageLayout::row_major;
}

// Floats in one image.
constexpr int64_t image_floats(ImageLayout layout, int64_t channels, int64_t positions) {
  return (layout == ImageLayout::blocked16 ? (channels + 15) / 16 * 16 : channels) * positions;
}

// The offset of position `first`, or of its first block.
constexpr int64_t position_offset(ImageLayout layout, int64_t channels, int64_t first) {
  return layout == ImageLayout::channels_last ? first * channels
         : layout == ImageLayout::blocked16   ? first * 16
                                              : first;
}

// True when both layouts put every element at the same place.
constexpr bool same_place(ImageLayout a, ImageLayout b, int64_t channels, int64_t positions) {
  if (a == b) return true;
  if (a == ImageLayout::blocked16 || b == ImageLayout::blocked16) return false;
  return channels == 1 || positions == 1;
}

// Copies `images` images from one layout to another, on this thread.
void convert_images(const float* from, ImageLayout from_layout, float* to, ImageLayout to_layout, int64_t images,
                    int64_t channels, int64_t positions);

// Converts `count` positions of one image with all their channels; `from` and `to` point to the first of them in images
// of from_positions and to_positions.
void convert_positions(const float* from, ImageLayout from_layout, int64_t from_positions, float* to,
                       ImageLayout to_layout, int64_t to_positions, int64_t channels, int64_t count);

}  // namespace kaon::ops
