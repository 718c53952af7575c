// Shapes and dtypes that follow from some known in part: what programs see of it. Beside infer on every row:
// tests/ops/table/inference_test.cpp; beside MXNet: tests/golden/golden_inference_test.cpp.
#include <catch2/catch.hpp>

#include "kaon/graph/control_flow.h"
#include "kaon/graph/inference/infer.h"
#include "kaon/graph/symbol.h"

namespace inference_test {

using namespace kaon;
using Catch::Contains;

namespace {

const Shape none = Shape::unknown();

Symbol fc(const Symbol& x, int hidden, const std::string& name) {
  return sym.as(name).FullyConnected(x, sym.var(name + "_weight"), sym.var(name + "_bias"), {.num_hidden = hidden});
}

}  // namespace

TEST_CASE("inference: knowledge flows from outputs to inputs", "[inference]") {
  const Symbol x = sym.var("x"), y = sym.var("y");
  const Symbol sum = sym.add_n(x, y);
  const auto s = sum.infer_shape_partial({{"x", {2, -1}}, {"y", {-1, 3}}});
  CHECK(s.arguments == std::vector<Shape>{{2, 3}, {2, 3}});
  CHECK(s.outputs[0] == Shape(2, 3));
  // of a layer's result, the batch of its data
  const Symbol net = sym.add_n(fc(x, 4, "a"), y);
  const auto t = net.infer_shape_partial({{"x", {-1, 5}}, {"y", {7, 4}}});
  CHECK(t.arguments[0] == Shape(7, 5));
  CHECK(t.arguments[1] == Shape(4, 5));
  CHECK(net.infer_shape({{"x", {-1, 5}}, {"y", {7, 4}}}).arguments == t.arguments);
  // a layer takes one dimension for rows of one number
  CHECK(fc(x, 4, "a").infer_shape_partial({{"x", {5}}}).arguments[1] == Shape(4, 1));
  CHECK(fc(x, 4, "a").infer_shape({{"x", {5}}}).outputs[0] == Shape(5, 4));
}

TEST_CASE("inference: the weight of a convolution in groups, of channels that are not known yet", "[inference]") {
  for (const int groups : {1, 32, 88}) {
    const Symbol net = sym.Convolution(sym.var("x"), sym.var("w"), sym.var("b"),
                                       {.kernel = {3, 5}, .num_filter = 2 * groups, .num_group = groups});
    const auto s = net.infer_shape_partial({{"x", {-1, -1, -1, -1}}});
    CHECK(s.arguments[1] == Shape(2 * groups, -1, 3, 5));
    CHECK(net.infer_shape_partial({{"x", {-1, groups, -1, -1}}}).arguments[1] == Shape(2 * groups, 1, 3, 5));
  }
}

TEST_CASE("inference: what does not follow stays unknown", "[inference]") {
  const Symbol net = fc(sym.relu(sym.var("x")), 4, "a");
  const auto s = net.infer_shape_partial({});
  CHECK(s.arguments == std::vector<Shape>{none, none, none});
  CHECK(s.outputs[0] == none);
  CHECK(net.infer_shape_partial({{"x", {-1, 3}}}).outputs[0] == Shape(-1, 4));
  CHECK_THROWS_WITH(net.infer_shape({{"x", {-1, 3}}}), Contains("does not follow"));
}

TEST_CASE("inference: contradictions name the node", "[inference]") {
  const Symbol net = sym.as("tie").add_n(sym.var("x"), sym.var("y"));
  CHECK_THROWS_AS(net.infer_shape_partial({{"x", {2, 3}}, {"y", {-1, 4}}}), ShapeError);
  CHECK_THROWS_WITH(net.infer_shape_partial({{"x", {2, 3}}, {"y", {-1, 4}}}), Contains("in node tie"));
  CHECK_THROWS_AS(net.infer_shape_partial({{"z", {2}}}), ValueError);
  CHECK_THROWS_AS(net.infer_type({{"x", DType::float16}, {"y", DType::int32}}), TypeError);
  CHECK_THROWS_WITH(net.infer_type({{"x", DType::float16}, {"y", DType::int32}}), Contains("in node tie"));
  CHECK_THROWS_AS(net.infer_type({{"z", DType::int8}}), ValueError);
}

TEST_CASE("inference: dimensions that a program left open", "[inference]") {
  const Symbol x = sym.var("x");
  const Symbol begin = sym.zeros({0, 4});
  const Symbol sum = sym.add_n(begin, x);
  CHECK(sum.infer_shape_partial({{"x", {3, 4}}}).outputs[0] == Shape(3, 4));
  // through layers, as the state with which a recurrent cell begins
  const Symbol cell = sym.add_n(fc(begin, 6, "h"), fc(x, 6, "i"));
  const auto s = cell.infer_shape_partial({{"x", {3, 5}}});
  CHECK(s.outputs[0] == Shape(3, 6));
  CHECK(s.arguments[0] == Shape(6, 4));
  // nothing decides: it is an array without elements
  CHECK(begin.infer_shape_partial({}).outputs[0] == Shape(0, 4));
  CHECK(begin.infer_shape({}).outputs[0] == Shape(0, 4));

  const Symbol closed = graph::with_closed_shapes(cell, {{"x", {3, 5}}});
  CHECK(closed.list_arguments() == cell.list_arguments());
  CHECK(closed.infer_shape({{"x", {3, 5}}}).outputs[0] == Shape(3, 6));
  CHECK(closed.get_internals().infer_shape({{"x", {3, 5}}}).outputs[0] == Shape(3, 4));
  CHECK_THROWS_AS(closed.infer_shape({{"x", {2, 5}}}), ShapeError);  // it is a program for this batch
  CHECK(graph::with_closed_shapes(x, {}).entry().node == x.entry().node);
}

TEST_CASE("inference: dtypes without shapes", "[inference]") {
  const Symbol x = sym.var("x");
  const Symbol net = fc(sym.cast(x, DType::float16), 4, "a");
  const auto t = net.infer_type({});
  CHECK(t.arguments == std::vector<std::optional<DType>>{std::nullopt, DType::float16, DType::float16});
  CHECK(t.outputs[0] == DType::float16);
  // what a program says of a variable
  const Symbol y = sym.var("y", none, DType::float64);
  CHECK(sym.add_n(x, y).infer_type({}).arguments[0] == DType::float64);
  CHECK(sym.relu(sym.var("z", {2, 3})).infer_type({}).outputs[0] == DType::float32);
  CHECK(sym.relu(sym.var("z", {2, 3})).infer_type({{"z", DType::float64}}).outputs[0] == DType::float64);
  CHECK(sym.one_hot(x, 3).infer_type({{"x", DType::int32}}).outputs[0] == DType::float32);
}

TEST_CASE("inference: through the bodies of loops", "[inference]") {
  const Symbol data = sym.var("data"), state = sym.var("state");
  const auto [outputs, states] = contrib::foreach (
      [](const Symbol& row, const Symbol& s) { return std::pair(sym.add_n(row, s), sym.add_n(s, s)); }, data, state);
  const auto s = Symbol::group({outputs, states}).infer_shape_partial({{"data", {-1, 3, 4}}});
  CHECK(s.arguments == std::vector<Shape>{{-1, 3, 4}, {3, 4}});
  CHECK(s.outputs == std::vector<Shape>{{-1, 3, 4}, {3, 4}});
  CHECK(outputs.infer_type({{"data", DType::float16}}).outputs[0] == DType::float16);
}

}  // namespace inference_test
