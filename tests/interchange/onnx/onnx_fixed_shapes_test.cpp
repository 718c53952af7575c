// Loaded models that are written for inputs of certain shapes.
#include <catch2/catch.hpp>
#include <fstream>

#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/kaon.h"
#include "kaon/tests/interchange/onnx/models.h"
#include "kaon/tests/support/files.h"

namespace onnx_fixed_shapes_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Contains;
using onnx::format::ElementType;

namespace {

// y = x b, z = x; all dimensions are open, of y without names.
onnx::format::Model open_model() {
  onnx::format::Model m = onnx_model(17);
  const auto info = [](const std::string& name, const std::vector<std::string>& dims) {
    onnx::format::ValueInfo v;
    v.name = name, v.type = ElementType::float32, v.has_shape = true;
    for (const std::string& d : dims) v.dims.push_back({-1, d});
    return v;
  };
  m.graph.inputs = {info("x", {"n", "k"}), info("b", {"k", ""})};
  m.graph.outputs = {info("y", {"", ""}), info("z", {"n", "k"})};
  m.graph.value_infos = {info("h", {"n", "other"})};
  m.graph.nodes = {onnx_node("MatMul", {"x", "b"}, {"h"}), onnx_node("Relu", {"h"}, {"y"}),
                   onnx_node("Identity", {"x"}, {"z"})};
  return m;
}

}  // namespace

TEST_CASE("onnx fixed shapes: the graph as it was, with numbers for its open dimensions", "[interchange]") {
  const ScratchFolder folder;
  std::ofstream(folder / "open.onnx", std::ios::binary) << onnx::format::write_model(open_model());
  const onnx::Block model = onnx::load(folder / "open.onnx");
  onnx::save(model, folder / "fixed.onnx", {.shapes = {{2, 3}, {3, 4}}});
  const onnx::Block back = onnx::load(folder / "fixed.onnx");
  const auto shapes = [](const std::vector<onnx::ValueInfo>& infos) {
    std::vector<std::pair<std::string, Shape>> all;
    for (const auto& info : infos) all.emplace_back(info.name, info.shape);
    return all;
  };
  CHECK(shapes(back.inputs()) == std::vector<std::pair<std::string, Shape>>{{"x", {2, 3}}, {"b", {3, 4}}});
  CHECK(shapes(back.outputs()) == std::vector<std::pair<std::string, Shape>>{{"y", {2, 4}}, {"z", {2, 3}}});
  const auto written = onnx::format::read_model(folder / "fixed.onnx");
  REQUIRE(written.graph.value_infos.size() == 1);
  CHECK(written.graph.value_infos[0].dims[0].value == 2);
  CHECK(written.graph.value_infos[0].dims[1].name == "other");
  CHECK(written.graph.nodes.size() == 3);
  CHECK_THROWS_WITH(back.forward({nd.ones({5, 3}), nd.ones({3, 4})}), Contains("input x"));
  CHECK(back.forward({nd.ones({2, 3}), nd.ones({3, 4})})[0].asvector<float>()[0] == 3);
  // the model itself stays open
  CHECK(model.inputs()[0].dim_names[0] == "n");
  CHECK_THROWS_WITH(onnx::save(model, folder / "no.onnx", {.shapes = {{2, 3}, {4, 4}}}),
                    Contains("inner dimensions") || Contains("the dimension k is 3 on axis 1 of x and 4"));
  CHECK_THROWS_WITH(onnx::save(model, folder / "no.onnx", {.shapes = {{2, 3, 1}, {3, 4}}}), Contains("input x"));
  CHECK_THROWS_WITH(onnx::save(model, folder / "no.onnx", {.shapes = {{2, 3}}}), Contains("input b"));
  CHECK_THROWS_WITH(onnx::save(model, folder / "no.onnx", {.shapes = {{2, 3}, {3, 4}, {1}}}), Contains("3 shapes"));
}

}  // namespace onnx_fixed_shapes_test
