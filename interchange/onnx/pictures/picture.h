// Image files of simple formats, which ImageDecoder knows beside JPEG and PNG.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace kaon::onnx {

struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // rows from the top, red, green and blue of each pixel
};

enum class PictureFormat : uint8_t { bmp, pnm, tiff, webp, jpeg2000, other };
PictureFormat picture_format(std::string_view bytes);  // by the first bytes

// BMP without compression; PBM, PGM and PPM, as text or bytes; TIFF of 8 bits in strips without compression, grey,
// coloured or with a palette. Transparency is dropped. Nothing for damaged bytes. Throws ValueError, naming it, for
// what a good file may have and is not read, and for other formats. No state: any thread.
std::optional<Picture> decode_picture(std::string_view bytes);

// The parts of each format.
std::optional<Picture> decode_bmp(std::string_view bytes);
std::optional<Picture> decode_pnm(std::string_view bytes);
std::optional<Picture> decode_tiff(std::string_view bytes);

}  // namespace kaon::onnx
