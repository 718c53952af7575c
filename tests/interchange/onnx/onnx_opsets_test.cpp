// Which operators a model has at each opset that is written.
#include <catch2/catch.hpp>
#include <set>

#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/files.h"

namespace onnx_opsets_test {

using namespace kaon;
using namespace kaon::test;

namespace {

struct Late : gluon::HybridBlock<Late> {
  auto hybrid_forward(auto F, auto x) { return F.mish(x) + F.gelu(x) + F.max(x, {.axis = {1}, .keepdims = true}); }
};

}  // namespace

TEST_CASE("onnx opsets: operators that came after an opset are written as others before it") {
  const ScratchFolder folder;
  Late net;
  net.hybridize();
  const NDArray x = nd.array({{-2, -0.5, 0.25}, {0, 1, 3}});
  const auto y = net(x).asvector<float>();
  for (int64_t opset = 17; opset <= 24; ++opset) {
    INFO("opset " << opset);
    onnx::save(net, folder / "net.onnx", {.opset = opset});
    const auto model = onnx::format::read_model(folder / "net.onnx");
    std::set<std::string> operators;
    for (const auto& node : model.graph.nodes) {
      operators.insert(node.op_type);
      if (node.op_type == "ReduceMax") CHECK(node.inputs.size() == (opset >= 18 ? 2 : 1));
    }
    CHECK(operators.contains("Mish") == (opset >= 18));
    CHECK(operators.contains("Gelu") == (opset >= 20));
    const auto back = onnx::load(folder / "net.onnx")(x).asvector<float>();
    REQUIRE(back.size() == y.size());
    for (size_t i = 0; i < y.size(); ++i) CHECK(back[i] == Approx(y[i]).margin(1e-6));
  }
}

TEST_CASE("onnx opsets: an operator that an opset does not have is refused") {
  struct Row {
    const char* op_type;
    int64_t opset;
  };
  const Row rows[] = {{"BitwiseAnd", 18}, {"Mish", 18},      {"GroupNormalization", 18},
                      {"Gelu", 20},       {"Attention", 23}, {"RMSNormalization", 23},
                      {"Swish", 24}};
  for (const Row& row : rows) {
    INFO(row.op_type);
    onnx::exporting::Builder before(row.opset - 1), at(row.opset);
    CHECK_THROWS_WITH(before.nodes(row.op_type, {"x"}, {}, 1, "n"), Catch::Contains(row.op_type));
    CHECK_NOTHROW(at.nodes(row.op_type, {"x"}, {}, 1, "n"));
  }
}

}  // namespace onnx_opsets_test
