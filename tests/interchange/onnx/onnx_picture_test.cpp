// Image files of ImageDecoder that are damaged, or of other formats. What good ones give is in data/onnx/pictures (by
// onnx_suite/write_pictures.py).
#include <catch2/catch.hpp>

#include <string>

#include "kaon/interchange/onnx/pictures/picture.h"
#include "kaon/kaon.h"
#include "kaon/tests/interchange/onnx/one_node.h"

namespace onnx_picture_test {

using namespace kaon;
using namespace kaon::test;
using namespace std::string_literals;

namespace {

NDArray bytes_of(const std::string& text) {
  return NDArray::from(reinterpret_cast<const uint8_t*>(text.data()), text.size(), Shape(int64_t(text.size())),
                       DType::uint8);
}

onnx::Block decoder(const std::string& format) {
  OneNode node("", "ImageDecoder", {{"data", proto::ElementType::uint8}}, 1, {text("pixel_format", format)});
  return node.load();
}

}  // namespace

TEST_CASE("onnx pictures: bytes that end anywhere, or with any bit changed, are read or refused", "[onnx]") {
  for (const char* name :
       {"bmp_palette", "bmp_top_down", "pnm_wide", "pnm_bits", "pnm_text_colours", "tiff_palette", "tiff_big_endian"}) {
    const proto::DataValue input = proto::read_data(
        data_file(std::string("onnx/pictures/") + name + "/test_data_set_0/input_0.pb"), proto::ValueInfo());
    const auto& raw = input.tensors.at(0).bytes;
    const std::string whole(reinterpret_cast<const char*>(raw.data()), raw.size());
    CAPTURE(name);
    const auto read = [](const std::string& bytes) -> std::optional<onnx::Picture> {
      try {
        return onnx::decode_picture(bytes);
      } catch (const ValueError&) {
        return std::nullopt;
      }
    };
    REQUIRE(read(whole));
    size_t refused = 0;
    for (size_t n = 0; n < whole.size(); ++n) refused += !read(whole.substr(0, n));
    CHECK(refused > 0);
    for (size_t i = 0; i < whole.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string changed = whole;
        changed[i] = char(changed[i] ^ (1 << bit));
        const auto p = read(changed);
        if (p) CHECK(p->rgb.size() == size_t(p->width * p->height * 3));
      }
    }
  }
}

TEST_CASE("onnx pictures: sizes depend on the bytes of each call", "[onnx]") {
  const onnx::Block block = decoder("RGB");
  CHECK(block(bytes_of("P6\n2 1\n255\nabcdef")).asvector<int>() == std::vector<int>{97, 98, 99, 100, 101, 102});
  CHECK(block(bytes_of("P5\n1 3\n255\nabc")).shape() == Shape(3, 1, 3));
  CHECK(block(bytes_of("no image")).shape() == Shape(0, 0, 3));
}

TEST_CASE("onnx pictures: what is not read is named", "[onnx]") {
  const onnx::Block block = decoder("RGB");
  CHECK_THROWS_WITH(block(bytes_of("RIFF    WEBPVP8 "s)), Catch::Contains("WebP images are not supported"));
  CHECK_THROWS_WITH(block(bytes_of("\0\0\0\x0cjP  "s)), Catch::Contains("JPEG 2000 images are not supported"));
  CHECK_THROWS_WITH(block(nd.zeros({1, 3}, {.dtype = DType::uint8})), Catch::Contains("bytes (n,) of uint8 expected"));
  CHECK_THROWS_WITH(decoder("YUV")(bytes_of("P5 1 1 255 a")), Catch::Contains("pixel_format YUV is not supported"));
}

}  // namespace onnx_picture_test
