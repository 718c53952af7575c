// Image files inside of tensors.
#include <fmt/format.h>

#include "kaon/engine/error.h"
#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/pictures/picture.h"
#include "kaon/ops/image_file/image_file.h"

namespace kaon::onnx::convert {

namespace {

// Red, green and blue of the pixels; nothing for bytes that are no image.
std::optional<Picture> picture_of(std::string_view bytes) {
  const bool is_simple = picture_format(bytes) != PictureFormat::other;
  if (is_simple) return decode_picture(bytes);
  try {
    const NDArray pixels = image::imdecode(bytes);
    return Picture{pixels.shape()[1], pixels.shape()[0], pixels.asvector<uint8_t>()};
  } catch (const IoError&) {
    return std::nullopt;
  }
}

uint8_t grey_of(const uint8_t* rgb) {  // 0.299, 0.587 and 0.114 in 65536ths, as ITU-R BT.601 has them
  return uint8_t((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 32768u) >> 16);
}

NDArray decoded_image(const NDArray& bytes, const std::string& format) {
  const std::vector<uint8_t> data = bytes.asvector<uint8_t>();
  const int64_t channels = format == "Grayscale" ? 1 : 3;
  std::optional<Picture> p = picture_of({reinterpret_cast<const char*>(data.data()), data.size()});
  if (!p) return NDArray::empty(Shape(0, 0, channels), DType::uint8);  // as the standard says
  std::vector<uint8_t> out(size_t(p->width * p->height * channels));
  for (size_t i = 0; i < size_t(p->width * p->height); ++i) {
    const uint8_t* const rgb = p->rgb.data() + i * 3;
    if (channels == 1) out[i] = grey_of(rgb);
    for (size_t k = 0; channels == 3 && k < 3; ++k) out[i * 3 + k] = rgb[format == "BGR" ? 2 - k : k];
  }
  return NDArray::from(out.data(), out.size(), Shape(p->height, p->width, channels), DType::uint8);
}

void image_decoder(Call& c) {
  const std::string format = c.text("pixel_format", "RGB");
  if (format != "RGB" && format != "BGR" && format != "Grayscale") c.fail_supported("pixel_format " + format);
  if (c.rank() != 1 || c.dtype() != DType::uint8) {
    c.fail(fmt::format("bytes (n,) of uint8 expected, got {} of {}", c.shape().str(), kaon::name_of(c.dtype())));
  }
  c.set(c.conversion().host(
      {c.input(0)}, [format](const std::vector<NDArray>& in) { return std::vector{decoded_image(in[0], format)}; })[0]);
}

constexpr Row image_decoder_table[] = {{"ImageDecoder", image_decoder, 20}};

}  // namespace

std::span<const Row> image_decoder_rows() { return image_decoder_table; }

}  // namespace kaon::onnx::convert
