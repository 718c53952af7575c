// Object detection in ONNX files.
#include <catch2/catch.hpp>

#include <limits>

#include "kaon/interchange/onnx.h"
#include "kaon/kaon.h"
#include "kaon/tests/interchange/onnx/models.h"
#include "kaon/tests/support/files.h"

namespace onnx_detection_test {

using namespace kaon;
using namespace kaon::onnx::format;
using namespace kaon::test;

TEST_CASE("onnx detection: int64's largest number of boxes means all of them", "[onnx]") {
  ScratchFolder folder;
  Model m = onnx_model(17);
  m.graph.nodes = {onnx_node("NonMaxSuppression", {"boxes", "scores", "most", "overlap"}, {"found"})};
  m.graph.inputs = {onnx_info("boxes", ElementType::float32, {1, 3, 4}),
                    onnx_info("scores", ElementType::float32, {1, 1, 3})};
  m.graph.outputs = {onnx_info("found", ElementType::int64, {-1, 3})};
  const NDArray boxes = nd.array({{0, 0, 1, 1}, {0, 0, 1, 1.1}, {5, 5, 6, 6}}).reshape({1, 3, 4});
  const NDArray scores = nd.array({{0.5, 0.9, 0.1}}).reshape({1, 1, 3});
  for (const int64_t most : {std::numeric_limits<int64_t>::max(), int64_t(2), int64_t(1)}) {
    CAPTURE(most);
    m.graph.initializers = {onnx_tensor<int64_t>("most", {1}, ElementType::int64, {most}),
                            onnx_tensor<float>("overlap", {1}, ElementType::float32, {0.5f})};
    const fs::path file = folder / "suppress.onnx";
    std::ofstream(file, std::ios::binary) << write_model(m);
    const NDArray found = onnx::load(file).forward({boxes, scores}).at(0);
    const std::vector<int64_t> all{0, 0, 1, 0, 0, 2};
    CHECK(found.asvector<int64_t>() == (most == 1 ? std::vector<int64_t>{0, 0, 1} : all));
  }
}

TEST_CASE("onnx detection: MaxRoiPool takes the largest pixels of each part of a region", "[onnx]") {
  ScratchFolder folder;
  Model m = onnx_model(16);
  m.graph.nodes = {onnx_node("MaxRoiPool", {"x", "rois"}, {"y"})};
  m.graph.nodes[0].attributes.resize(2);
  Attribute &size = m.graph.nodes[0].attributes[0], &scale = m.graph.nodes[0].attributes[1];
  size.name = "pooled_shape", size.type = Attribute::Type::integers, size.integers = {2, 2};
  scale.name = "spatial_scale", scale.type = Attribute::Type::float32, scale.f = 0.5f;
  m.graph.inputs = {onnx_info("x", ElementType::float32, {1, 1, 4, 4}),
                    onnx_info("rois", ElementType::float32, {-1, 5})};
  m.graph.outputs = {onnx_info("y", ElementType::float32, {-1, 1, 2, 2})};
  const fs::path file = folder / "regions.onnx";
  std::ofstream(file, std::ios::binary) << write_model(m);
  const NDArray x = nd.arange(16).reshape({1, 1, 4, 4});
  // corners 0 to 6 times 0.5, both in the region: all four rows; 1.4 times 0.5 is rounded to 1
  const NDArray y = onnx::load(file).forward({x, nd.array({{0, 0, 0, 6, 6}, {0, 1.4, 1.4, 4, 4}})}).at(0);
  CHECK(y.shape() == Shape(2, 1, 2, 2));
  CHECK(y.asvector<float>() == std::vector<float>{5, 7, 13, 15, 5, 6, 9, 10});
}

}  // namespace onnx_detection_test
