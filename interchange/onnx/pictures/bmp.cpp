// BMP: rows of pixels, usually from the bottom, each a multiple of 4 bytes.
#include <fmt/format.h>

#include <cstdlib>

#include "kaon/engine/error.h"
#include "kaon/interchange/onnx/pictures/picture.h"
#include "kaon/interchange/onnx/pictures/picture_bytes.h"

namespace kaon::onnx {

namespace {

constexpr uint64_t kFileHeader = 14, kLeastHeader = 40;

Picture read_bmp(const PictureBytes& b) {
  const uint64_t pixels = b.number(10, 4), header = b.number(14, 4);
  if (header < kLeastHeader) throw ValueError(fmt::format("[onnx] a BMP header of {} bytes is not supported", header));
  Picture p;
  const auto rows = int64_t(int32_t(b.number(22, 4)));
  p.width = int32_t(b.number(18, 4)), p.height = std::abs(rows);
  const auto bits = int64_t(b.number(28, 2));
  const uint32_t compression = b.number(30, 4), used = b.number(46, 4);
  if (compression != 0) throw ValueError(fmt::format("[onnx] BMP compression {} is not supported", compression));
  if (bits != 1 && bits != 4 && bits != 8 && bits != 24 && bits != 32) {
    throw ValueError(fmt::format("[onnx] BMP with {} bits for a pixel is not supported", bits));
  }
  b.check_sides(p.width, p.height, bits);
  const uint64_t colours = used != 0 ? used : uint64_t(1) << (bits <= 8 ? bits : 0);
  const auto row_bytes = uint64_t((p.width * bits + 31) / 32 * 4);
  p.rgb.resize(size_t(p.width * p.height * 3));
  uint8_t* to = p.rgb.data();
  for (int64_t y = 0; y < p.height; ++y) {
    const int64_t row = rows > 0 ? p.height - 1 - y : y;
    const std::string_view from = b.part(pixels + uint64_t(row) * row_bytes, row_bytes);
    for (int64_t x = 0; x < p.width; ++x, to += 3) {
      std::string_view bgr;
      if (bits > 8) {
        bgr = from.substr(size_t(x * bits / 8), 3);
      } else {
        const int64_t bit = x * bits;
        const uint64_t index = uint8_t(from[size_t(bit / 8)]) >> (8 - bits - bit % 8) & ((1 << bits) - 1);
        if (index >= colours) throw DamagedPicture();
        bgr = b.part(kFileHeader + header + index * 4, 3);
      }
      for (size_t k = 0; k < 3; ++k) to[k] = uint8_t(bgr[2 - k]);
    }
  }
  return p;
}

}  // namespace

std::optional<Picture> decode_bmp(std::string_view bytes) {
  try {
    return read_bmp(PictureBytes(bytes, false));
  } catch (const DamagedPicture&) {
    return std::nullopt;
  }
}

}  // namespace kaon::onnx
