// If, Loop and Scan of ONNX as operators of control flow, and where they are not. The values are ONNX Runtime's, which
// onnx_sample compares (data/onnx/control_flow, by onnx_suite/write_control_flow.py).
#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/interchange/onnx.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/files.h"

namespace onnx_control_test {

using namespace kaon;
using namespace kaon::test;

namespace {

fs::path model(const std::string& name) { return data_file("onnx/control_flow/" + name + "/model.onnx"); }

size_t count(const graph::Graph& graph, const std::string& op);

size_t count(const OpDef* def, const void* attrs, const std::string& op) {
  if (!def) return 0;
  size_t n = def->name() == op;
  if (graph::is_control_flow(*def)) {
    for (const graph::Graph& inner : graph::program_of(*def, attrs).graphs) n += count(inner, op);
  }
  return n;
}

size_t count(const graph::Graph& graph, const std::string& op) {
  size_t n = 0;
  for (const graph::Node& node : graph.nodes) n += count(node.op, node.attrs.get(), op);
  return n;
}

// How many nodes of this operator the program has for these shapes, in loops and branches too.
size_t count(const std::string& name, const std::vector<Shape>& shapes, const std::string& op) {
  const Symbol program = onnx::load_block(model(name), shapes).program();
  size_t n = 0;
  for (const graph::SymbolNode* node : graph::topological_order(program.entries())) {
    n += count(node->op, node->attrs.get(), op);
  }
  return n;
}

double difference(const NDArray& a, const NDArray& b) { return nd.max(nd.abs(a - b)).asscalar<double>(); }

}  // namespace

TEST_CASE("onnx control flow: conditions and numbers of iterations that inputs give need no values", "[onnx]") {
  CHECK(count("if_weights", {{2, 3}, Shape()}, "_cond") == 1);
  CHECK(count("if_nested", {}, "_cond") == 2);
  CHECK(count("loop_count", {}, "_while_loop") == 1);
  CHECK(count("loop_while", {}, "_while_loop") == 1);
  CHECK(count("loop_known", {}, "_foreach") == 1);
  CHECK(count("scan_recurrent", {}, "_foreach") == 1);
  CHECK(count("scan_axes", {}, "_foreach") == 1);
  // an If and a Loop in a Loop
  CHECK(count("loop_nested", {}, "_while_loop") == 1);
  CHECK(count("loop_nested", {}, "_foreach") == 1);
  CHECK(count("loop_nested", {}, "_cond") == 1);
}

TEST_CASE("onnx control flow: shapes that depend on values hold the program for these", "[onnx]") {
  for (const char* name : {"if_shapes", "loop_growing", "loop_count_results"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(onnx::load_block(model(name)), TraceError);
  }
  onnx::Block growing = onnx::load(model("loop_growing"));
  const NDArray x = nd.ones({1, 2});
  const auto rows = [&](int64_t n) {
    return growing.forward({x, NDArray::from(&n, 1, Shape(), DType::int64)})[0].shape()[0];
  };
  CHECK(rows(3) == 4);
  CHECK(rows(1) == 2);
  CHECK(rows(3) == 4);
}

TEST_CASE("onnx control flow: one program does for each number of iterations, awaited or not", "[onnx]") {
  onnx::Block net = onnx::load(model("loop_count"));
  const NDArray x = nd.array({0.1, 0.2, 0.3});
  for (const bool hybridized : {true, false}) {
    net.hybridize(hybridized);
    NDArray expected = x;
    for (int64_t n = 0; n < 5; ++n) {
      const NDArray y = net.forward({x, NDArray::from(&n, 1, Shape(), DType::int64)})[0];
      CHECK(difference(y, expected) < 1e-6);
      expected = expected + nd.sin(expected);
    }
  }
}

TEST_CASE("onnx control flow: gradients go through loops and branches to weights outside", "[onnx]") {
  // scan_recurrent: h = tanh(row w + h r)
  onnx::Block net = onnx::load(model("scan_recurrent"));
  const NDArray x = nd.random_uniform({4, 2, 3}, {.low = -1, .high = 1});
  NDArray h0 = nd.random_uniform({2, 5}, {.low = -1, .high = 1});
  net.hybridize();
  autograd::record([&] { return net.forward({x, h0})[1].sum(); }).backward();
  // second factors are kept transposed where only products read them
  const gluon::ParameterDict all = net.collect_params();
  const auto in_order = [](const NDArray& a, int64_t rows) { return a.shape()[0] == rows ? a : nd.transpose(a); };
  NDArray w = in_order(all.get("w").data(), 3).copy(), r = all.get("r").data().copy();
  w.attach_grad();
  r.attach_grad();
  autograd::record([&] {
    NDArray h = h0, sum = nd.zeros({1});
    for (int64_t k = 0; k < 4; ++k) {
      h = nd.tanh(nd.dot(x[k], w) + nd.dot(h, r));
      sum = sum + h.sum();
    }
    return sum;
  }).backward();
  CHECK(difference(in_order(all.get("w").grad(), 3), w.grad()) < 1e-4);
  CHECK(difference(all.get("r").grad(), r.grad()) < 1e-4);
}

TEST_CASE("onnx control flow: a branch that cannot run does not matter until it is taken", "[onnx]") {
  onnx::Block net = onnx::load(model("if_nested"));
  const NDArray x = nd.ones({4});
  const auto run = [&](bool p, bool q) {
    return net
        .forward({x, NDArray::from(&p, 1, Shape(), DType::boolean), NDArray::from(&q, 1, Shape(), DType::boolean)})[0]
        .asvector<float>()[0];
  };
  CHECK(run(true, true) == Approx(std::exp(1.f)));
  CHECK(run(true, false) == 1);
  CHECK(run(false, true) == -1);
}

}  // namespace onnx_control_test
