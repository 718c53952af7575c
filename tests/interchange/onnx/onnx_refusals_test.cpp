// What is refused of a model, and that the error says what the model's file says.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <span>

#include "kaon/interchange/load_weights.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/interchange/safetensors.h"
#include "kaon/kaon.h"
#include "kaon/tests/interchange/onnx/models.h"
#include "kaon/tests/interchange/onnx/one_node.h"
#include "kaon/tests/support/files.h"

namespace onnx_refusals_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Contains;
using onnx::format::ElementType;
namespace fs = std::filesystem;
namespace nn = kaon::gluon::nn;

namespace {

// By a rename: a model that was loaded from the older file has it mapped.
void write(const onnx::format::Model& model, const fs::path& file) {
  const fs::path made = file.string() + ".new";
  std::ofstream(made, std::ios::binary) << onnx::format::write_model(model);
  fs::rename(made, file);
}

// y = x w of x (n, 3), w (3, 2).
onnx::format::Model product() {
  onnx::format::Model m = onnx_model(17);
  m.graph.inputs = {onnx_info("x", ElementType::float32, {-1, -2})};
  m.graph.outputs = {onnx_info("y", ElementType::float32, {-1, 2})};
  m.graph.initializers = {onnx_tensor<float>("w", {3, 2}, ElementType::float32, {1, 2, 3, 4, 5, 6})};
  m.graph.nodes = {onnx_node("MatMul", {"x", "w"}, {"y"})};
  m.graph.nodes[0].name = "layer";
  return m;
}

}  // namespace

TEST_CASE("onnx refusals: operators of a version that is not known", "[interchange]") {
  const ScratchFolder folder;
  const fs::path file = folder / "m.onnx";
  const auto load = [&](const std::string& domain, int64_t version) {
    onnx::format::Model m = product();
    m.opsets[domain] = version;
    write(m, file);
    return onnx::load(file);
  };
  for (const int64_t version : {0, 29, 99}) {
    CHECK_THROWS_WITH(load("", version), Contains("m.onnx") && Contains("ai.onnx") && Contains("expected 1 to 28") &&
                                             Contains("version " + std::to_string(version)));
  }
  CHECK_THROWS_WITH(load("ai.onnx.ml", 6), Contains("of ai.onnx.ml") && Contains("expected 1 to 5"));
  CHECK_THROWS_WITH(load("com.microsoft", 2), Contains("of com.microsoft") && Contains("expected 1 to 1"));
  CHECK_NOTHROW(load("", 28));
  CHECK_NOTHROW(load("com.example", 99));  // of the model's own functions
  onnx::format::Model m = product();
  onnx::format::Function f;
  f.name = "Own", f.domain = "com.example", f.opsets[""] = 40;
  m.functions = {f};
  write(m, file);
  CHECK_THROWS_WITH(onnx::load(file), Contains("function Own") && Contains("version 40"));
}

TEST_CASE("onnx refusals: an index outside an axis, which is known at the call alone", "[interchange]") {
  const ScratchFolder folder;
  const fs::path file = folder / "m.onnx";
  struct Kind {
    const char *op, *reduction;
    Shape indices, updates;
  };
  // of x (4, 4), along its second axis or by tuples; indices of fewer rows take another way
  const Kind kinds[] = {{"Gather", "", {1, 2}, {}},
                        {"GatherElements", "", {4, 2}, {}},
                        {"GatherElements", "", {2, 2}, {}},
                        {"GatherND", "", {2, 1}, {}},
                        {"ScatterElements", "none", {4, 2}, {4, 2}},
                        {"ScatterElements", "add", {4, 2}, {4, 2}},
                        {"ScatterElements", "none", {2, 2}, {2, 2}},
                        {"ScatterElements", "max", {1, 1}, {1, 1}},
                        {"ScatterND", "none", {2, 1}, {2, 4}},
                        {"ScatterND", "add", {2, 1}, {2, 4}},
                        {"ScatterND", "add", {2, 2}, {2}}};
  for (const Kind& kind : kinds) {
    const bool is_nd = std::string(kind.op).ends_with("ND");
    onnx::format::Model m = onnx_model(18);
    const auto dims = [](const Shape& s) { return std::vector<int64_t>(s.begin(), s.end()); };
    m.graph.inputs = {onnx_info("x", ElementType::float32, {4, 4}),
                      onnx_info("i", ElementType::int64, dims(kind.indices))};
    m.graph.outputs = {onnx_info("y", ElementType::float32, {})};
    m.graph.nodes = {onnx_node(kind.op, {"x", "i"}, {"y"})};
    const bool scatters = *kind.reduction != 0;
    if (scatters) {
      m.graph.inputs.push_back(onnx_info("u", ElementType::float32, dims(kind.updates)));
      m.graph.nodes[0].inputs.push_back("u");
      m.graph.nodes[0].attributes.push_back(onnx::exporting::text("reduction", kind.reduction));
    }
    if (!is_nd) m.graph.nodes[0].attributes.push_back(onnx::exporting::integer("axis", 1));
    m.graph.outputs[0].has_shape = false;
    write(m, file);
    const onnx::Block net = onnx::load(file);
    constexpr int64_t n = 4;
    const NDArray x = nd.reshape(nd.arange(16), Shape(4, 4));
    const auto run = [&](int64_t index) {
      std::vector<NDArray> inputs{x, nd.full(kind.indices, double(index), {.dtype = DType::int64})};
      if (scatters) inputs.push_back(nd.ones(kind.updates));
      return net.forward(inputs)[0].asvector<float>();
    };
    CAPTURE(kind.op, kind.reduction, kind.indices.str());
    CHECK(run(-n) == run(0));
    CHECK(run(-1) == run(n - 1));
    for (int64_t wrong : {-n - 1, -2 * n, -2 * n - 1, n, int64_t(1) << 40}) CHECK_THROWS_AS(run(wrong), IndexError);
    if (is_nd) continue;
    // as an initializer it is named
    m.graph.inputs.erase(m.graph.inputs.begin() + 1);
    const std::vector<int64_t> nines(size_t(kind.indices.size()), -9);
    m.graph.initializers = {onnx_tensor<int64_t>("i", dims(kind.indices), ElementType::int64, nines)};
    write(m, file);
    std::vector<NDArray> inputs{x};
    if (scatters) inputs.push_back(nd.ones(kind.updates));
    CHECK_THROWS_WITH(onnx::load(file).forward(inputs)[0].asvector<float>(), Contains("index -9"));
  }
}

TEST_CASE("onnx refusals: parts and pads that do not fit their axis", "[interchange]") {
  const ScratchFolder folder;
  const fs::path file = folder / "m.onnx";
  const auto run = [&](const char* op, const std::vector<int64_t>& numbers, size_t outputs) {
    onnx::format::Model m = onnx_model(18);
    m.graph.inputs = {onnx_info("x", ElementType::float32, {2, 4})};
    m.graph.initializers = {onnx_tensor<int64_t>("n", {int64_t(numbers.size())}, ElementType::int64, numbers)};
    m.graph.nodes = {onnx_node(op, {"x", "n"}, {})};
    if (op == std::string("Split")) m.graph.nodes[0].attributes.push_back(onnx::exporting::integer("axis", 1));
    for (size_t i = 0; i < outputs; ++i) {
      m.graph.nodes[0].outputs.push_back(fmt::format("y{}", i));
      m.graph.outputs.push_back(onnx_info(fmt::format("y{}", i), ElementType::float32, {}));
      m.graph.outputs[i].has_shape = false;
    }
    write(m, file);
    return onnx::load(file).forward({nd.ones({2, 4})})[0].shape();
  };
  CHECK(run("Split", {1, 3}, 2) == Shape(2, 1));
  CHECK_THROWS_WITH(run("Split", {-2, 6}, 2), Contains("do not make up the axis"));
  CHECK_THROWS_WITH(run("Split", {6, -3, 1}, 3), Contains("do not make up the axis"));
  CHECK(run("Pad", {0, -1, 0, -2}, 1) == Shape(2, 1));
  CHECK_THROWS_WITH(run("Pad", {0, -5, 0, 3}, 1), Contains("pads of -5 and 3 cut more than the 4 elements of axis 1"));
  CHECK_THROWS_WITH(run("Pad", {0, -3, 0, -2}, 1), Contains("cut more than"));
}

TEST_CASE("onnx refusals: windows that hold padding alone, and a dimension that nothing determines", "[interchange]") {
  const auto pooled = [&](const char* op, const std::vector<int64_t>& pads) {
    const OneNode one("", op, {{"x", ElementType::float32}}, 1,
                      {integers("kernel_shape", {2, 3}), integers("pads", pads)});
    return one.load().forward({nd.ones({1, 1, 4, 4})})[0].shape();
  };
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
    CHECK(pooled(op, {1, 2, 1, 2}) == Shape(1, 1, 5, 6));
    CHECK_THROWS_WITH(pooled(op, {0, 3, 0, 0}),
                      Contains("smaller than the kernel's 3 elements, got 3 before and 0 after "
                               "on axis 3"));
    CHECK_THROWS_WITH(pooled(op, {0, 0, 2, 0}), Contains("2 elements, got 0 before and 2 after on axis 2"));
  }
  const auto reshaped = [&](const std::vector<int64_t>& to) {
    const OneNode one("", "Reshape", {{"x", ElementType::float32}, {"to", ElementType::int64}}, 1,
                      {integer("allowzero", 1)}, {tensor<int64_t>("to", ElementType::int64, {int64_t(to.size())}, to)});
    return one.load().forward({nd.zeros({0, 3})})[0].shape();
  };
  CHECK(reshaped({3, 0}) == Shape(3, 0));
  CHECK(reshaped({3, -1}) == Shape(3, 0));
  CHECK_THROWS_WITH(reshaped({0, -1}), Contains("dimensions of 0 leave that of -1 open: 0, -1"));
}

TEST_CASE("onnx refusals: bfloat16 where an operator does not take it", "[interchange]") {
  const ScratchFolder folder;
  const auto save = [&](nn::HybridSequential net, const Shape& shape, int64_t opset) {
    net.initialize();
    net.cast(DType::bfloat16);
    net.hybridize();
    const NDArray x = nd.ones(shape, {.dtype = DType::bfloat16});
    net(x);
    onnx::save(net, folder / "m.onnx", {.opset = opset});
    CHECK(onnx::load(folder / "m.onnx").forward({x})[0].dtype() == DType::bfloat16);
  };
  const nn::HybridSequential convolution(nn::Conv2D(2, {3, 3})), dense(nn::Dense(3), nn::LayerNorm());
  for (const int64_t opset : {17, 20}) {
    save(dense, {2, 4}, opset);
    CHECK_THROWS_WITH(
        save(convolution, {1, 2, 5, 5}, opset),
        Contains("(Convolution): the operator Conv does not take bfloat16 at opset") && Contains("but from 22 on"));
  }
  save(convolution, {1, 2, 5, 5}, 22);
  // in between it is another dtype
  const auto rounded = [&](int64_t opset) {
    const Symbol x = sym.var("x", {3}, DType::bfloat16);
    const Symbol y = sym.cast(sym.sin(sym.cast(x, DType::float32)), DType::bfloat16);
    onnx::save(y, {{"x", {{3}, DType::bfloat16}}}, {}, folder / "m.onnx", {.opset = opset});
  };
  CHECK_NOTHROW(rounded(17));
  const Symbol x = sym.var("x", {3}, DType::bfloat16);
  CHECK_THROWS_WITH(onnx::save(sym.sin(x), {{"x", {{3}, DType::bfloat16}}}, {}, folder / "m.onnx"),
                    Contains("the operator Sin does not take bfloat16 at opset 17, but from 22 on"));
}

TEST_CASE("onnx refusals: functions that expand without end", "[interchange]") {
  const ScratchFolder folder;
  const fs::path file = folder / "m.onnx";
  onnx::format::Model m = product();
  m.opsets["own"] = 1;
  constexpr int depth = 40;
  for (int i = 0; i < depth; ++i) {
    onnx::format::Function f;
    f.domain = "own", f.name = fmt::format("f{}", i), f.inputs = {"a"}, f.outputs = {"c"}, f.opsets = m.opsets;
    const std::string called = i + 1 < depth ? fmt::format("f{}", i + 1) : "Relu";
    f.nodes = {onnx_node(called, {"a"}, {"b"}), onnx_node(called, {"b"}, {"c"})};
    if (i + 1 < depth) f.nodes[0].domain = f.nodes[1].domain = "own";
    m.functions.push_back(f);
  }
  m.graph.nodes.push_back(onnx_node("f0", {"y"}, {"z"}));
  m.graph.nodes.back().domain = "own";
  m.graph.outputs = {onnx_info("z", ElementType::float32, {-1, 2})};
  write(m, file);
  CHECK_THROWS_WITH(onnx::load(file), Contains("m.onnx") && Contains("more than 4194304 nodes"));
  m.graph.nodes.back().op_type = "f36";  // 16 nodes
  write(m, file);
  CHECK(onnx::load(file)(nd.array({{1, 0, 0}})).shape() == Shape(1, 2));
  m.functions[38].nodes[1].op_type = "f37";
  write(m, file);
  CHECK_THROWS_WITH(onnx::load(file), Contains("the function f37 calls itself"));
}

TEST_CASE("onnx refusals: a missing value is named as in the file", "[interchange]") {
  const ScratchFolder folder;
  const fs::path file = folder / "m.onnx";
  write(product(), file);
  CHECK_THROWS_WITH(onnx::load(file)(NDArray()), Contains("the input x") && Contains("not defined"));
  onnx::format::Model m = product();
  m.graph.nodes[0].op_type = "Gemm";
  m.graph.nodes[0].inputs = {"", "w"};
  write(m, file);
  CHECK_THROWS_WITH(onnx::load(file)(nd.ones({2, 3})),
                    Contains("Gemm: input 0 is left out") && Contains("'layer' (Gemm) that makes 'y'"));
  m.graph.nodes[0].inputs = {"nobody", "w"};
  write(m, file);
  CHECK_THROWS_WITH(onnx::load(file)(nd.ones({2, 3})),
                    Contains("'nobody'") && Contains("'layer' (Gemm) that makes 'y'"));
}

TEST_CASE("onnx refusals: an array that is not defined is an optional without a value", "[interchange]") {
  const ScratchFolder folder;
  const fs::path file = folder / "m.onnx";
  onnx::format::Model m = onnx_model(18);
  m.graph.inputs = {onnx_info("x", ElementType::float32, {2}), onnx_info("o", ElementType::float32, {})};
  constexpr std::string_view type = "\x4a\x06\x0a\x04\x0a\x02\x08\x01";  // TypeProto: an optional of a float32 tensor
  m.graph.inputs[1].as_read = std::as_bytes(std::span(type));
  m.graph.outputs = {onnx_info("y", ElementType::float32, {2})};
  m.graph.nodes = {onnx_node("OptionalHasElement", {"o"}, {"has"}), onnx_node("Cast", {"has"}, {"one"}),
                   onnx_node("Add", {"x", "one"}, {"y"})};
  m.graph.nodes[1].attributes = {onnx::exporting::integer("to", int64_t(ElementType::float32))};
  write(m, file);
  const onnx::Block net = onnx::load(file);
  const NDArray x = nd.array({1, 2});
  CHECK(net.forward({x, nd.array({5})})[0].asvector<float>() == std::vector<float>{2, 3});
  CHECK(net.forward({x, NDArray()})[0].asvector<float>() == std::vector<float>{1, 2});
  CHECK_THROWS_WITH(net.forward({NDArray(), nd.array({5})}),
                    Contains("the input x") && Contains("only an optional may be"));
}

TEST_CASE("onnx refusals: a weight has the shape that the file says", "[interchange]") {
  const ScratchFolder folder;
  const fs::path file = folder / "m.onnx";
  write(product(), file);
  onnx::Block net = onnx::load(file);
  CHECK_THROWS_WITH(net(nd.ones({2, 4})), Contains("got 4 and 3") && Contains("'w' of shape (3, 2)"));
  CHECK_THROWS_WITH(gluon::load_weights(net, {{"w", nd.ones({4, 2})}}),
                    Contains("'w' has the shape (3, 2), got (4, 2)") && Contains("'w.transposed'"));
  const auto report = gluon::match_weights(net, {{"w", nd.ones({4, 2})}});
  REQUIRE(report.mismatched.size() == 1);
  CHECK(report.mismatched[0].expected == "(3, 2)");
  CHECK(report.mismatched[0].found == "(4, 2)");
  CHECK_NOTHROW(gluon::load_weights(net, {{"w", nd.ones({3, 2})}}));
}

TEST_CASE("onnx refusals: load_parameters says what another tool's file is", "[interchange]") {
  const ScratchFolder folder;
  write(product(), folder / "m.onnx");
  nn::Dense net(2);
  CHECK_THROWS_WITH(net.load_parameters(folder / "m.onnx"),
                    Contains("ONNX model") && Contains("onnx::load") && Contains("load_weights"));
  CHECK_THROWS_WITH(net.collect_params().load(folder / "m.onnx"), Contains("onnx::load"));
  safetensors::save(folder / "m.safetensors", {{"weight", nd.ones({2, 3})}});
  CHECK_THROWS_WITH(net.load_parameters(folder / "m.safetensors"), Contains("safetensors") && Contains("load_weights"));
  std::ofstream(folder / "m.params") << "neither";
  CHECK_THROWS_WITH(net.load_parameters(folder / "m.params"), !Contains("load_weights"));
}

TEST_CASE("onnx refusals: an output that changes its shape at 1 is named", "[interchange]") {
  const ScratchFolder folder;
  const Symbol x = sym.var("x", {2, 4});
  const Symbol program = sym.as("narrow").squeeze(sym.expand_dims(x, 1));
  CHECK_THROWS_WITH(
      onnx::save(program, {{"x", {Shape(2, 4), DType::float32}}}, {}, folder / "no.onnx", {.batch_name = "n"}),
      Contains("the output narrow") && Contains("of node") && Contains("shape (n, 4)") &&
          Contains("for n = 1 it has (4)"));
}

}  // namespace onnx_refusals_test
