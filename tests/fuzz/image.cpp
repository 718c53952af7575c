// Fuzz target: JPEG and PNG files. Any bytes give pixels or an IoError.
#include <string_view>
#include <vector>

#include "kaon/engine/error.h"
#include "kaon/ops/image_file/decoder.h"
#include "kaon/tests/fuzz/require.h"

using namespace kaon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ops::ImageBytes image{std::string_view(reinterpret_cast<const char*>(data), size), "bytes"};
  try {
    const ops::ImageHeader header = ops::read_image_header(image);
    const int64_t pixels = header.width * header.height;
    const bool is_png = header.format == ops::ImageHeader::Format::png;
    test::require(!is_png || pixels <= 1032 * 8 * int64_t(size), "no more pixels than so many bytes can hold");
    if (pixels > 1 << 20) return 0;  // the fuzzer's time
    for (bool is_color : {true, false}) {
      const ops::PixelOrder order{.is_color = is_color};
      std::vector<uint8_t> out(size_t(pixels * order.channels()));
      ops::decode_image(image, header, order, out.data());
    }
  } catch (const IoError&) {
  }
  return 0;
}
