// Operators that are made of others: nodes of Symbols and files, never of graphs or tapes.
#include "kaon/graph/ir/graph.h"
#include "kaon/tests/graph/support.h"

namespace composite_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> operators(const Graph& g) {
  std::vector<std::string> names;
  for (const Node& n : g.nodes) {
    if (n.op) names.emplace_back(n.op->name());
  }
  return names;
}

}  // namespace

TEST_CASE("composite: a graph with shapes has the parts, a symbol and its file the operator") {
  const Symbol y = sym.as("crop").Crop(sym.as("up").UpSampling(sym.var("x"), {.scale = 2}), {.h_w = {3, 3}});
  CHECK_THAT(y.tojson(), Contains("\"UpSampling\"") && Contains("\"Crop\"") && !Contains("_resample"));
  Graph g = Graph::from_symbol(y, {"x"});
  CHECK(operators(g) == std::vector<std::string>{"UpSampling", "Crop"});
  const TensorMeta x{Shape(1, 2, 4, 5), DType::float32};
  infer_graph(g, std::span(&x, 1));
  g.validate();
  CHECK(operators(g) == std::vector<std::string>{"_resample", "slice"});
  CHECK(g.meta(g.outputs[0]).shape == Shape(1, 2, 3, 3));
  for (const Node& n : g.nodes) {
    if (n.op) CHECK(n.provenance.size() == n.outputs.size());
    if (n.op) CHECK_THAT(n.name, Contains("up_") || Contains("crop_"));
  }
}

TEST_CASE("composite: errors and operations bear the operator's name and the line of its call") {
  const int line = __LINE__ + 1;
  const std::string error = message_of([] { nd.Crop(nd.ones({1, 1, 2, 2}), {.h_w = {3, 3}}); });
  CHECK_THAT(error, Contains("[Crop]") && Contains(fmt::format("composite_test.cpp:{}", line)));
  Storage& storage = Storage::cpu();
  NDArray x = nd.ones({1, 1, 64, 64});
  nd.waitall();
  storage.trim();
  storage.set_limit(storage.stats().live + (1 << 20));
  NDArray y = nd.UpSampling(x, {.scale = 16});
  const std::string text = message_of([&] { y.wait_to_read(); });
  storage.set_limit(0);
  CHECK_THAT(text, Contains("out of memory") &&
                       Contains(fmt::format("[UpSampling], pushed at composite_test.cpp:{}", __LINE__ - 4)));
  CHECK_NOTHROW(nd.waitall());
}

}  // namespace composite_test
