// The decoders of image files: headers and pixels from bytes in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kaon::ops {

// What is wanted of an image's pixels: interleaved channels, 3 or 1.
struct PixelOrder {
  bool is_color = true;
  bool is_rgb = true;  // of colour; else blue, green, red
  int64_t channels() const { return is_color ? 3 : 1; }
};

struct ImageHeader {
  enum class Format : uint8_t { jpeg, png } format = Format::jpeg;
  int64_t width = 0, height = 0;  // of the pixels that are decoded
  int shrink = 1;                 // of JPEG: the file's sides by 2, 4 or 8, rounded up
};

// The bytes of a file with the name that errors give it: "[imread] photo.jpg".
struct ImageBytes {
  std::string_view bytes;
  std::string_view name;
};

// The format by the first bytes, and the size. Throws IoError; never trusts a size that so few bytes cannot hold. No
// state: any thread.
ImageHeader read_image_header(const ImageBytes& image);
// The header for the smallest size that libjpeg decodes to, whose sides have at least `side` pixels; the same for PNG.
ImageHeader shrunk_to(const ImageHeader& header, int64_t side);
// Pixels to `out`: height x width x channels. Throws IoError where the file is damaged; then `out` holds anything.
void decode_image(const ImageBytes& image, const ImageHeader& header, PixelOrder order, uint8_t* out);

// The parts of each format. Sizes are checked by check_image_size.
ImageHeader read_jpeg_header(const ImageBytes& image);
void decode_jpeg(const ImageBytes& image, const ImageHeader& header, PixelOrder order, uint8_t* out);
ImageHeader read_png_header(const ImageBytes& image);
void decode_png(const ImageBytes& image, const ImageHeader& header, PixelOrder order, uint8_t* out);

// Throws IoError for a side above 2^20, for more than 2^30 pixels, and where `least_bytes`, without which no file has
// so many pixels, are more than there are.
void check_image_size(const ImageBytes& image, int64_t width, int64_t height, double least_bytes);
[[noreturn]] void fail_image(const ImageBytes& image, const char* format, size_t at, const char* what);

}  // namespace kaon::ops
