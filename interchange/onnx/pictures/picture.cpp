#include "kaon/interchange/onnx/pictures/picture.h"

#include "kaon/engine/error.h"

namespace kaon::onnx {

PictureFormat picture_format(std::string_view bytes) {
  using namespace std::string_view_literals;
  if (bytes.starts_with("BM")) return PictureFormat::bmp;
  if (bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6') return PictureFormat::pnm;
  if (bytes.starts_with("II*\0"sv) || bytes.starts_with("MM\0*"sv)) return PictureFormat::tiff;
  if (bytes.starts_with("RIFF") && bytes.size() > 12 && bytes.substr(8, 4) == "WEBP") return PictureFormat::webp;
  if (bytes.starts_with("\0\0\0\x0cjP  "sv) || bytes.starts_with("\xff\x4f\xff\x51")) return PictureFormat::jpeg2000;
  return PictureFormat::other;
}

std::optional<Picture> decode_picture(std::string_view bytes) {
  switch (picture_format(bytes)) {
    case PictureFormat::bmp: return decode_bmp(bytes);
    case PictureFormat::pnm: return decode_pnm(bytes);
    case PictureFormat::tiff: return decode_tiff(bytes);
    case PictureFormat::webp: throw ValueError("[onnx] WebP images are not supported");
    case PictureFormat::jpeg2000: throw ValueError("[onnx] JPEG 2000 images are not supported");
    case PictureFormat::other: break;
  }
  return std::nullopt;
}

}  // namespace kaon::onnx
