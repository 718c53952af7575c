#include "kaon/gluon/data/internal/image_bytes.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/image_file/encoder.h"

namespace kaon::gluon::data::detail {

bool has_image_name(const std::filesystem::path& file) {
  std::string end = file.extension().string();
  std::ranges::transform(end, end.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return end == ".jpg" || end == ".jpeg" || end == ".png";
}

HostTensor decoded(std::string_view bytes, const std::string& name, int flag, int64_t min_side) {
  const ops::ImageBytes image{bytes, name};
  const ops::PixelOrder order{.is_color = flag != 0};
  ops::ImageHeader header = ops::read_image_header(image);
  if (min_side > 0) header = ops::shrunk_to(header, min_side);
  HostTensor pixels({header.height, header.width, order.channels()}, DType::uint8);
  ops::decode_image(image, header, order, pixels.mutable_as<uint8_t>());
  return pixels;
}

std::string encoded(const HostTensor& image, bool is_png, int quality) {
  const Shape shape = image.defined() ? image.shape() : Shape();
  if (shape.ndim() != 3 || (shape[2] != 1 && shape[2] != 3)) {
    throw ShapeError(fmt::format("[pack_img] expected an image (height, width, 1 or 3), got shape {}", shape.str()));
  }
  const auto format = is_png ? ops::ImageHeader::Format::png : ops::ImageHeader::Format::jpeg;
  return ops::encode_image({image.as<uint8_t>(), shape[1], shape[0], shape[2]}, format, quality);
}

}  // namespace kaon::gluon::data::detail
