// TIFF: a directory of tags says where strips of rows are.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kaon/engine/error.h"
#include "kaon/interchange/onnx/pictures/picture.h"
#include "kaon/interchange/onnx/pictures/picture_bytes.h"

namespace kaon::onnx {

namespace {

enum Tag : uint32_t {
  kWidth = 256,
  kHeight = 257,
  kBits = 258,
  kCompression = 259,
  kPhotometric = 262,
  kStripOffsets = 273,
  kSamples = 277,
  kRowsPerStrip = 278,
  kPlanar = 284,
  kColours = 320,
};
constexpr uint32_t kWhiteIsZero = 0, kBlackIsZero = 1, kRgb = 2, kPalette = 3;

class Directory {
 public:
  explicit Directory(const PictureBytes& b) : b_(b) {
    const uint64_t begin = b.number(4, 4);
    const uint32_t count = b.number(begin, 2);
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t at = begin + 2 + uint64_t(i) * 12;
      entries_.emplace(b.number(at, 2), at);
    }
  }

  // Numbers of a tag: how many, and the one at `i`; 0 and `otherwise` where it is not there.
  uint32_t count(Tag tag) const {
    const uint64_t at = find(tag);
    return at == 0 ? 0 : b_.number(at + 4, 4);
  }
  uint32_t number(Tag tag, uint32_t otherwise, uint32_t i = 0) const {
    const uint64_t at = find(tag);
    if (at == 0) return otherwise;
    const uint32_t type = b_.number(at + 2, 2), n = b_.number(at + 4, 4);
    const int size = type == 1 ? 1 : type == 3 ? 2 : type == 4 ? 4 : 0;
    if (size == 0 || i >= n) throw DamagedPicture();
    const bool is_inside = uint64_t(n) * uint64_t(size) <= 4;
    return b_.number((is_inside ? at + 8 : uint64_t(b_.number(at + 8, 4))) + uint64_t(i) * uint64_t(size), size);
  }

 private:
  uint64_t find(Tag tag) const {
    const auto at = entries_.find(tag);
    return at == entries_.end() ? 0 : at->second;
  }
  const PictureBytes& b_;
  std::map<uint32_t, uint64_t> entries_;  // by tag
};

Picture read_tiff(const PictureBytes& b) {
  const Directory d(b);
  Picture p;
  p.width = d.number(kWidth, 0), p.height = d.number(kHeight, 0);
  const uint32_t compression = d.number(kCompression, 1), kind = d.number(kPhotometric, kBlackIsZero),
                 bits = d.number(kBits, 1), samples = d.number(kSamples, 1), planar = d.number(kPlanar, 1);
  if (compression != 1) throw ValueError(fmt::format("[onnx] TIFF compression {} is not supported", compression));
  if (bits != 8 || planar != 1 || kind > kPalette || d.count(kStripOffsets) == 0) {
    throw ValueError(
        fmt::format("[onnx] TIFF with {} bits for a number, photometric {}, planar {} and {} strips is not "
                    "supported",
                    bits, kind, planar, d.count(kStripOffsets)));
  }
  if (samples < (kind == kRgb ? 3u : 1u) || samples > 16) throw DamagedPicture();
  b.check_sides(p.width, p.height, int64_t(samples) * 8);
  const int64_t rows = std::min<int64_t>(d.number(kRowsPerStrip, uint32_t(p.height)), p.height);
  if (rows < 1) throw DamagedPicture();
  const uint64_t row_bytes = uint64_t(p.width) * samples;
  std::vector<uint8_t> colours;  // 256 of red, then of green, then of blue, in the upper 8 of 16 bits
  for (uint32_t i = 0; kind == kPalette && i < 768; ++i) colours.push_back(uint8_t(d.number(kColours, 0, i) >> 8));
  p.rgb.resize(size_t(p.width * p.height * 3));
  uint8_t* to = p.rgb.data();
  for (int64_t y = 0; y < p.height; ++y) {
    const uint64_t strip = d.number(kStripOffsets, 0, uint32_t(y / rows));
    const std::string_view from = b.part(strip + uint64_t(y % rows) * row_bytes, row_bytes);
    for (int64_t x = 0; x < p.width; ++x, to += 3) {
      const std::string_view pixel = from.substr(size_t(x) * samples, samples);
      for (size_t k = 0; k < 3; ++k) {
        const auto level = uint8_t(pixel[kind == kRgb ? k : 0]);
        if (kind == kPalette) to[k] = colours[k * 256 + level];
        else to[k] = kind == kWhiteIsZero ? uint8_t(255 - level) : level;
      }
    }
  }
  return p;
}

}  // namespace

std::optional<Picture> decode_tiff(std::string_view bytes) {
  try {
    return read_tiff(PictureBytes(bytes, bytes[0] == 'M'));
  } catch (const DamagedPicture&) {
    return std::nullopt;
  }
}

}  // namespace kaon::onnx
