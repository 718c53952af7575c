// Fuzz target: BMP, PNM and TIFF files of ONNX's ImageDecoder. Any bytes give pixels, nothing, or a ValueError.
#include "kaon/engine/error.h"
#include "kaon/interchange/onnx/pictures/picture.h"
#include "kaon/tests/fuzz/require.h"

using namespace kaon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto p = onnx::decode_picture({reinterpret_cast<const char*>(data), size});
    if (!p) return 0;
    test::require(p->width > 0 && p->height > 0, "no image without pixels");
    test::require(p->rgb.size() == size_t(p->width * p->height * 3), "three numbers for each pixel");
    test::require(p->rgb.size() <= size * 24, "no more pixels than bits");
  } catch (const ValueError&) {
  }
  return 0;
}
