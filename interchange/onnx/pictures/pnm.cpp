// PBM, PGM and PPM: numbers as text in front, then pixels as text (P1 to P3) or bytes (P4 to P6).
#include "kaon/interchange/onnx/pictures/picture.h"
#include "kaon/interchange/onnx/pictures/picture_bytes.h"

namespace kaon::onnx {

namespace {

constexpr uint32_t kMostLevel = 65535;

class PnmText {
 public:
  PnmText(std::string_view bytes, uint64_t at) : bytes_(bytes), at_(at) {}
  uint64_t at() const { return at_; }

  // The next number; with `digits`, of so many at most.
  uint32_t number(size_t digits = 9) {
    skip();
    uint32_t value = 0;
    size_t count = 0;
    for (; count < digits && at_ < bytes_.size() && bytes_[at_] >= '0' && bytes_[at_] <= '9'; ++at_, ++count)
      value = value * 10 + uint32_t(bytes_[at_] - '0');
    if (count == 0) throw DamagedPicture();
    return value;
  }

 private:
  void skip() {  // white space and comments
    while (at_ < bytes_.size()) {
      const char c = bytes_[at_];
      if (c == '#') {
        while (at_ < bytes_.size() && bytes_[at_] != '\n' && bytes_[at_] != '\r') ++at_;
      } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
        ++at_;
      } else {
        return;
      }
    }
  }
  std::string_view bytes_;
  uint64_t at_;
};

Picture read_pnm(std::string_view bytes) {
  const int kind = bytes[1] - '0';  // 1 and 4: black and white, 2 and 5: grey, 3 and 6: coloured
  const bool is_text = kind <= 3, is_bits = kind % 3 == 1;
  PnmText text(bytes, 2);
  Picture p;
  p.width = text.number(), p.height = text.number();
  const uint32_t most = is_bits ? 1 : text.number();
  if (most < 1 || most > kMostLevel) throw DamagedPicture();
  const int64_t channels = kind % 3 == 0 ? 3 : 1, size = most > 255 ? 2 : 1;
  const PictureBytes b(bytes, true);
  b.check_sides(p.width, p.height, is_text ? 8 * channels : is_bits ? 1 : 8 * size * channels);
  p.rgb.resize(size_t(p.width * p.height * 3));
  const uint64_t begin = text.at() + 1;  // one white space in front of bytes
  const auto row_bytes = uint64_t(is_bits ? (p.width + 7) / 8 : p.width * channels * size);
  uint8_t* to = p.rgb.data();
  for (int64_t y = 0; y < p.height; ++y) {
    for (int64_t x = 0; x < p.width; ++x, to += 3) {
      for (int64_t k = 0; k < channels; ++k) {
        uint32_t level = 0;
        if (is_text) {
          level = text.number(is_bits ? 1 : 9);
        } else if (is_bits) {
          level = b.number(begin + uint64_t(y) * row_bytes + uint64_t(x / 8), 1) >> (7 - x % 8) & 1;
        } else {
          level = b.number(begin + uint64_t(y) * row_bytes + uint64_t((x * channels + k) * size), int(size));
        }
        if (level > most) throw DamagedPicture();
        to[k] = uint8_t(is_bits ? (1 - level) * 255 : (level * 255 + most / 2) / most);  // 1 is black
      }
      if (channels == 1) to[1] = to[2] = to[0];
    }
  }
  return p;
}

}  // namespace

std::optional<Picture> decode_pnm(std::string_view bytes) {
  try {
    return read_pnm(bytes);
  } catch (const DamagedPicture&) {
    return std::nullopt;
  }
}

}  // namespace kaon::onnx
