// Object detection in ONNX files.
#include <catch2/catch.hpp>

#include <limits>

#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/files.h"

namespace onnx_detection_test {

using namespace kaon;
using namespace kaon::onnx::format;
using namespace kaon::test;

namespace {

template <class T>
Tensor tensor(const std::string& name, const std::vector<int64_t>& dims, ElementType type, std::vector<T> values) {
  Tensor t;
  t.name = name, t.dims = dims, t.type = type;
  auto own = std::make_shared<const std::vector<T>>(std::move(values));
  t.bytes = std::as_bytes(std::span(*own));
  t.keeper = own;
  return t;
}

ValueInfo info(const std::string& name, ElementType type, const std::vector<int64_t>& dims) {
  ValueInfo v;
  v.name = name, v.type = type, v.has_shape = true;
  for (int64_t d : dims) v.dims.push_back({d, d < 0 ? "n" : ""});
  return v;
}

}  // namespace

TEST_CASE("onnx detection: int64's largest number of boxes means all of them", "[onnx]") {
  ScratchFolder folder;
  Model m;
  m.ir_version = 8;
  m.opsets[""] = 17;
  Node suppress;
  suppress.op_type = "NonMaxSuppression";
  suppress.inputs = {"boxes", "scores", "most", "overlap"};
  suppress.outputs = {"found"};
  m.graph.name = "suppress";
  m.graph.nodes = {suppress};
  m.graph.inputs = {info("boxes", ElementType::float32, {1, 3, 4}), info("scores", ElementType::float32, {1, 1, 3})};
  m.graph.outputs = {info("found", ElementType::int64, {-1, 3})};
  const NDArray boxes = nd.array({{0, 0, 1, 1}, {0, 0, 1, 1.1}, {5, 5, 6, 6}}).reshape({1, 3, 4});
  const NDArray scores = nd.array({{0.5, 0.9, 0.1}}).reshape({1, 1, 3});
  for (const int64_t most : {std::numeric_limits<int64_t>::max(), int64_t(2), int64_t(1)}) {
    CAPTURE(most);
    m.graph.initializers = {tensor<int64_t>("most", {1}, ElementType::int64, {most}),
                            tensor<float>("overlap", {1}, ElementType::float32, {0.5f})};
    const fs::path file = folder / "suppress.onnx";
    std::ofstream(file, std::ios::binary) << write_model(m);
    const NDArray found = onnx::load(file).forward({boxes, scores}).at(0);
    const std::vector<int64_t> all{0, 0, 1, 0, 0, 2};
    CHECK(found.asvector<int64_t>() == (most == 1 ? std::vector<int64_t>{0, 0, 1} : all));
  }
}

}  // namespace onnx_detection_test
