#include "kaon/graph/ir/graph.h"

#include "kaon/tests/graph/support.h"

namespace graph_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

TEST_CASE("graph: from a symbol: inputs first in the order given, then nodes in the order of the program") {
  Symbol x = sym.var("x", {2, 3}), y = sym.var("y", {2, 3});
  Symbol first = sym.as("first").exp(y), second = sym.as("second").tanh(x),
         third = sym.as("third").broadcast_sub(second, first);
  Graph g = Graph::from_symbol(Symbol::group({third, second}), {"y", "unused", "x"});
  g.validate();
  std::vector<std::string> names;
  for (const Node& n : g.nodes) names.push_back(n.name);
  CHECK(names == std::vector<std::string>{"y", "unused", "x", "first", "second", "third"});
  CHECK(g.inputs == std::vector<uint32_t>{0, 1, 2});
  CHECK(g.outputs == std::vector<ValueId>{{5, 0}, {4, 0}});
  CHECK(g.num_forward_outputs == 2);
  CHECK(g.nodes[5].inputs == std::vector<ValueId>{{4, 0}, {3, 0}});
  CHECK_THROWS_WITH(Graph::from_symbol(third, {"x"}), Contains("variable 'y' is not among the inputs"));
  auto uses = count_uses(g);
  CHECK(uses[4][0] == 2);
  CHECK(uses[1][0] == 0);
}

TEST_CASE("graph: shapes are inferred anew for other inputs; an error names the node") {
  Symbol y = sym.as("product").dot(sym.as("t").tanh(sym.var("x")), sym.var("w"));
  Graph g = Graph::from_symbol(y, {"x", "w"});
  for (int n : {2, 5}) {
    TensorMeta metas[] = {{Shape(n, 3), DType::float32}, {Shape(3, 4), DType::float32}};
    infer_graph(g, metas);
    CHECK(g.meta(g.outputs[0]).shape == Shape(n, 4));
  }
  TensorMeta wrong[] = {{Shape(2, 3), DType::float32}, {Shape(4, 4), DType::float32}};
  CHECK_THROWS_AS(infer_graph(g, wrong), ShapeError);
  CHECK_THROWS_WITH(infer_graph(g, wrong), Contains("in node product"));
}

TEST_CASE("graph: str shows every node; validate finds references forwards") {
  Graph g = Graph::from_symbol(sym.as("a").tanh(sym.var("x", {2})) + sym.array({1, 2}), {"x"});
  CHECK_THAT(g.str(),
             Contains("%0 = input()") && Contains("= tanh(%0)") && Contains("constant") && Contains("return %"));
  g.validate();
  g.nodes[1].inputs.push_back({9, 0});
  CHECK_THROWS_AS(g.validate(), Error);
  g = Graph::from_symbol(sym.tanh(sym.var("x", {2})), {"x"});
  g.outputs[0].output = 3;
  CHECK_THROWS_WITH(g.validate(), Contains("an output refers to"));
}

}  // namespace graph_test
