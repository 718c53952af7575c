// Images read from JPEG and PNG files, and the functions of MXNet's mx.image for them: resizing and borders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <source_location>
#include <span>
#include <string_view>

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace image {

struct DecodeOptions {
  int flag = 1;        // 1: three channels; 0: one, grey. Other positive numbers are 1, as in MXNet
  bool to_rgb = true;  // of three channels; false: blue, green, red, as OpenCV has them
};

// The image in these bytes of a JPEG or PNG file: uint8 (height, width, channels) on the CPU. Its header is read at the
// call, and the pixels by an operation of the engine, which fails where they are damaged. The values are those of
// MXNet 1.9.1 (OpenCV 3.4): transparency is dropped, not blended; 16 bits are cut to the upper 8; grey is Y of a JPEG,
// 0.299 R + 0.587 G + 0.114 B of a PNG; a JPEG of four channels is taken for inverted CMYK or YCCK, as Adobe writes it.
// The orientation that EXIF names is not applied: as MXNet, and unlike newer OpenCV, which turns the image.
// Damaged data are refused, where MXNet keeps what it could read of a JPEG: IoError that names the file and the byte.
// Also refused: a side above 2^20, more than 2^30 pixels, and sizes that so few bytes cannot hold. Throws IoError,
// ValueError for a negative flag; Error in builds without KAON_IMAGES. Blocks for the header only. Thread safety: any
// thread.
KAON_API NDArray imdecode(std::string_view bytes, const DecodeOptions& options = {},
                          const std::source_location& site = std::source_location::current());
KAON_API NDArray imdecode(std::span<const uint8_t> bytes, const DecodeOptions& options = {},
                          const std::source_location& site = std::source_location::current());
// The same of a uint8 (n,): waits for its values. TypeError and ShapeError for others, TraceError in a trace.
KAON_API NDArray imdecode(const NDArray& bytes, const DecodeOptions& options = {},
                          const std::source_location& site = std::source_location::current());
// The same of a file, which is read at the call: its contents count, not how its name ends.
KAON_API NDArray imread(const std::filesystem::path& file, const DecodeOptions& options = {},
                        const std::source_location& site = std::source_location::current());

// nd.image_resize of (height, width, channels) to (h, w, channels). ValueError for another interp than 0 to 4.
KAON_API NDArray imresize(const NDArray& src, int w, int h, int interp = 1,
                          const std::source_location& site = std::source_location::current());

// What lies beyond the edge of the row abcd: 0 a number; 1 aaaabcdddd; 2 baabcddc; 3 cdabcdab; 4 cbabcdcb.
enum class Border { constant, replicate, reflect, wrap, reflect_101 };
struct BorderOptions {
  Border type = Border::constant;
  double value = 0;                  // of every channel
  std::span<const double> values{};  // of each channel, in its place
};
// src (height, width, channels) with so many rows and columns more on each side. Any dtype. ValueError for negative
// ones, for values of another number than the channels, and for a border of an image without pixels, unless it is
// constant.
KAON_API NDArray copyMakeBorder(const NDArray& src, int top, int bot, int left, int right,
                                const BorderOptions& options = {},
                                const std::source_location& site = std::source_location::current());

}  // namespace image
}  // namespace kaon
