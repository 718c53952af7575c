#include "kaon/ops/image_file/decoder.h"

#include <fmt/format.h>

#include "kaon/engine/error.h"

namespace kaon::ops {

void fail_image(const ImageBytes& image, const char* format, size_t at, const char* what) {
  throw IoError(fmt::format("{}: damaged {}, at byte {} of {}: {}", image.name, format, at, image.bytes.size(), what));
}

void check_image_size(const ImageBytes& image, int64_t width, int64_t height, double least_bytes) {
  constexpr int64_t most_side = 1 << 20, most_pixels = 1 << 30;
  if (width < 1 || height < 1 || width > most_side || height > most_side || width > most_pixels / height) {
    throw IoError(fmt::format("{}: expected sides of 1 to {} and at most {} pixels, got {} x {}", image.name, most_side,
                              most_pixels, width, height));
  }
  if (least_bytes > double(image.bytes.size())) {
    throw IoError(fmt::format("{}: damaged: {} x {} pixels take at least {} bytes, got {}", image.name, width, height,
                              int64_t(least_bytes), image.bytes.size()));
  }
}

ImageHeader shrunk_to(const ImageHeader& header, int64_t side) {
  if (header.format != ImageHeader::Format::jpeg) return header;
  for (int shrink : {8, 4, 2}) {
    const int64_t width = (header.width + shrink - 1) / shrink, height = (header.height + shrink - 1) / shrink;
    if (width >= side && height >= side) return {header.format, width, height, shrink};
  }
  return header;
}

#ifdef KAON_IMAGES

ImageHeader read_image_header(const ImageBytes& image) {
  if (image.bytes.starts_with("\xff\xd8\xff")) return read_jpeg_header(image);
  if (image.bytes.starts_with("\x89PNG\r\n\x1a\n")) return read_png_header(image);
  std::string first;
  for (char c : image.bytes.substr(0, 8)) first += fmt::format("{}{:02x}", first.empty() ? "" : " ", uint8_t(c));
  throw IoError(fmt::format("{}: expected a JPEG or PNG file, got {}", image.name,
                            first.empty() ? "no bytes" : "one that begins with " + first));
}

void decode_image(const ImageBytes& image, const ImageHeader& header, PixelOrder order, uint8_t* out) {
  if (header.format == ImageHeader::Format::jpeg) return decode_jpeg(image, header, order, out);
  decode_png(image, header, order, out);
}

#else

ImageHeader read_image_header(const ImageBytes& image) {
  throw Error(
      fmt::format("{}: this build of Kaon reads no image files: it was configured with KAON_IMAGES=OFF", image.name));
}
void decode_image(const ImageBytes& image, const ImageHeader&, PixelOrder, uint8_t*) { read_image_header(image); }

#endif

}  // namespace kaon::ops
