// The bytes of an image file, each access checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kaon::onnx {

struct DamagedPicture {};  // is thrown, and caught by the decoder

constexpr int64_t kMostSide = 1 << 20, kMostPixels = 1 << 28;

class PictureBytes {
 public:
  PictureBytes(std::string_view bytes, bool is_big_endian) : bytes_(bytes), is_big_(is_big_endian) {}

  // A number of `size` bytes at offset `at`.
  uint32_t number(uint64_t at, int size) const {
    const std::string_view b = part(at, uint64_t(size));
    uint32_t value = 0;
    for (int i = 0; i < size; ++i) value |= uint32_t(uint8_t(b[size_t(i)])) << 8 * (is_big_ ? size - 1 - i : i);
    return value;
  }
  std::string_view part(uint64_t at, uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) throw DamagedPicture();
    return bytes_.substr(size_t(at), size_t(size));
  }
  // Sides that an image may have, with at least so many bits in the file for each pixel.
  void check_sides(int64_t width, int64_t height, int64_t bits) const {
    const bool fits = width >= 1 && height >= 1 && width <= kMostSide && height <= kMostSide &&
                      width <= kMostPixels / height && uint64_t(width * height * bits) / 8 <= bytes_.size();
    if (!fits) throw DamagedPicture();
  }

 private:
  std::string_view bytes_;
  bool is_big_;
};

}  // namespace kaon::onnx
