// Sizes of images in ONNX files.
#include <catch2/catch.hpp>

#include "kaon/interchange/onnx.h"
#include "kaon/kaon.h"
#include "kaon/tests/interchange/onnx/one_node.h"

namespace onnx_resize_test {

using namespace kaon;
using namespace kaon::test;
using proto::ElementType;

// PyTorch 2.15 and ONNX Runtime 1.32 give these widths of 10 pixels.
TEST_CASE("onnx resize: a width by a scale is that of float32", "[onnx]") {
  const std::pair<float, int64_t> rows[] = {{0.6f, 6},  {0.7f, 7},  {0.9f, 9}, {1.3f, 13},
                                            {2.3f, 23}, {0.75f, 7}, {0.1f, 1}, {1.99f, 19}};
  for (const auto& [scale, width] : rows) {
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      CAPTURE(scale, mode);
      const auto scales = tensor<float>("scales", ElementType::float32, {4}, {1, 1, 1, scale});
      onnx::Block net =
          OneNode("", "Resize",
                  {{"x", ElementType::float32}, {"", ElementType::float32}, {"scales", ElementType::float32}}, 1,
                  {text("mode", mode)}, {scales})
              .load();
      const NDArray y = net(nd.arange(40).reshape({1, 1, 4, 10}));
      CHECK(y.shape() == Shape(1, 1, 4, width));
    }
  }
}

}  // namespace onnx_resize_test
