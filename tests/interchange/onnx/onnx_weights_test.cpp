// Parameters of loaded ONNX models: names, layouts, files by name, running statistics, several models in one net.
#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>

#include "kaon/interchange/load_weights.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/interchange/tensor_files.h"
#include "kaon/kaon.h"
#include "kaon/tests/interchange/onnx/models.h"
#include "kaon/tests/support/files.h"

namespace onnx_weights_test {

using namespace kaon;
using namespace kaon::test;
using onnx::format::ElementType;

namespace {

std::vector<float> values_of(const NDArray& a) { return a.asvector<float>(); }

onnx::format::Tensor initializer(const std::string& name, const NDArray& values) {
  return onnx_tensor(name, {values.shape().begin(), values.shape().end()}, ElementType::float32, values_of(values));
}

// y = x w + b, the weight (4, columns) as the second factor of a product.
onnx::format::Model product(const NDArray& w, const NDArray& b) {
  onnx::format::Model m = onnx_model(17);
  m.graph.inputs = {onnx_info("x", ElementType::float32, {-1, 4})};
  m.graph.outputs = {onnx_info("y", ElementType::float32, {-1, b.shape()[0]})};
  m.graph.initializers = {initializer("w", w), initializer("b", b)};
  m.graph.nodes = {onnx_node("MatMul", {"x", "w"}, {"a"}), onnx_node("Add", {"a", "b"}, {"y"})};
  return m;
}

// In place of an older file, which nets that have mapped it keep.
void write(const onnx::format::Model& model, const fs::path& file) {
  fs::remove(file);
  std::ofstream(file, std::ios::binary) << onnx::format::write_model(model);
}

void check_same(const NDArray& a, const NDArray& b) {
  REQUIRE(a.shape() == b.shape());
  CHECK(nd.max(nd.abs(a - b)).asscalar<float>() < 1e-5f);
}

// The sum of two models.
struct Two : gluon::HybridBlock<Two> {
  gluon::SymbolBlock first, second;
  Two(const gluon::SymbolBlock& a, const gluon::SymbolBlock& b)
      : first(child("first", a)), second(child("second", b)) {}
  auto hybrid_forward(auto, auto x) { return first(x) + second(x); }
};

struct Outer : gluon::HybridBlock<Outer> {
  Two two;
  gluon::SymbolBlock third;
  Outer(const Two& a, const gluon::SymbolBlock& b) : two(child("two", a)), third(child("third", b)) {}
  auto hybrid_forward(auto, auto x) { return two(x) + third(x); }
};

}  // namespace

TEST_CASE("onnx weights: those of products load by name in both layouts, square ones too", "[onnx]") {
  for (const int64_t columns : {4, 5}) {
    CAPTURE(columns);
    const ScratchFolder folder;
    const fs::path model = folder / "net.onnx";
    const NDArray w = nd.random_normal({4, columns}), b = nd.random_normal({columns}), x = nd.random_normal({3, 4});
    write(product(nd.random_normal({4, columns}), nd.random_normal({columns})), model);
    const NDArray y = nd.dot(x, w) + b;

    // the model's own layout under the initializer's name
    onnx::Block net = onnx::load(model);
    const std::string name = "w" + std::string(gluon::transposed_suffix);
    CHECK_FALSE(net.collect_params().contains("w"));
    CHECK(net.collect_params().get(name).shape() == Shape(columns, 4));
    for (const char* file : {"w.npz", "w.safetensors", "w.params"}) {
      save_tensors(folder / file, {{"w", w}, {"b", b}});
      onnx::Block by_file = onnx::load(model);
      const gluon::WeightReport report = gluon::load_weights(by_file, folder / file);
      CHECK(report.matched.size() == 2);
      check_same(by_file(x), y);
    }
    net(x);
    gluon::load_weights(net, {{"w", w}, {"b", b}});
    check_same(net(x), y);
    gluon::SymbolBlock block = onnx::load(model).specialize({{3, 4}});
    gluon::load_weights(block, {{"w", w}, {"b", b}});
    check_same(block(x), y);

    // what was saved of the net itself
    NamedArrays own;
    for (const gluon::Parameter& p : net.collect_params()) own.emplace_back(p.name(), p.data());
    save_tensors(folder / "own.safetensors", own);
    net.save_parameters(folder / "own.params");
    onnx::Block again = onnx::load(model), third = onnx::load(model), fourth = onnx::load(model);
    gluon::load_weights(again, folder / "own.safetensors");
    check_same(again(x), y);
    third.load_parameters(folder / "own.params");
    check_same(third(x), y);
    gluon::load_weights(fourth, folder / "own.params");
    check_same(fourth(x), y);

    // one tensor too many, and a file of names that nothing translates
    CHECK_THROWS_WITH(gluon::load_weights(net, {{"w", w}, {name, nd.transpose(w)}, {"b", b}}),
                      Catch::Contains("both 'w' and 'w.transposed' are for the parameter 'w.transposed'"));
    CHECK_THROWS_AS(net.load_parameters(folder / "w.params"), ValueError);
    check_same(net(x), y);

    // written as ONNX and read again
    net(x);
    gluon::SymbolBlock traced = net.specialize({{3, 4}});
    traced.hybridize();
    traced(x);
    onnx::save(traced, folder / "again.onnx", {.batch_name = "n"});
    onnx::Block written = onnx::load(folder / "again.onnx");
    check_same(written(x), y);
    const NDArray other = nd.random_normal({4, columns});
    gluon::load_weights(written, {{"w", other}, {"b", b}});
    check_same(written(x), nd.dot(x, other) + b);
  }
}

TEST_CASE("onnx weights: a model that has a name of its own with the ending keeps its layout", "[onnx]") {
  const ScratchFolder folder;
  const NDArray w = nd.random_normal({4, 4}), b = nd.random_normal({4}), x = nd.random_normal({3, 4});
  onnx::format::Model m = product(w, b);
  m.graph.initializers[1].name = "w.transposed";
  m.graph.nodes[1].inputs[1] = "w.transposed";
  write(m, folder / "net.onnx");
  onnx::Block net = onnx::load(folder / "net.onnx");
  check_same(net(x), nd.dot(x, w) + b);
  check_same(net.collect_params().get("w").data(), w);
  check_same(net.collect_params().get("w.transposed").data(), b);
}

TEST_CASE("onnx weights: of a model exported in training mode, predictions use running statistics", "[onnx]") {
  const ScratchFolder folder;
  const NDArray x = nd.random_normal({16, 3, 4, 4}, {.loc = 5});
  const NDArray mean = nd.array({1.f, 2.f, 3.f}), var = nd.array({4.f, 5.f, 6.f}), one = nd.ones({3});
  onnx::format::Model m = onnx_model(17);
  m.graph.inputs = {onnx_info("x", ElementType::float32, {-1, 3, 4, 4})};
  m.graph.outputs = {onnx_info("y", ElementType::float32, {-1, 3, 4, 4})};
  m.graph.initializers = {initializer("s", one), initializer("b", one), initializer("rm", mean),
                          initializer("rv", var)};
  onnx::format::Node node = onnx_node("BatchNormalization", {"x", "s", "b", "rm", "rv"}, {"y", "m1", "v1"});
  node.attributes.emplace_back();
  node.attributes[0].name = "training_mode";
  node.attributes[0].type = onnx::format::Attribute::Type::integer;
  node.attributes[0].i = 1;
  m.graph.nodes = {node};
  write(m, folder / "net.onnx");
  const auto along = [](const NDArray& a) { return a.reshape({1, 3, 1, 1}); };
  const auto normalised = [&](const NDArray& by_mean, const NDArray& by_var) {
    return nd.broadcast_div(nd.broadcast_sub(x, along(by_mean)), nd.sqrt(along(by_var) + 1e-5)) + 1;
  };
  const NDArray batch_mean = nd.mean(x, {.axis = Shape(0, 2, 3)});
  const NDArray batch_var =
      nd.mean(nd.square(nd.broadcast_sub(x, along(batch_mean))), {.axis = Shape(0, 2, 3)});  // biased

  onnx::Block net = onnx::load(folder / "net.onnx");
  check_same(net(x), normalised(mean, var));
  check_same(net.collect_params().get("rm").data(), mean);
  NDArray y = autograd::record([&] { return net(x); });
  check_same(y, normalised(batch_mean, batch_var));
  y.backward();
  const NDArray new_mean = mean * 0.9 + batch_mean * 0.1, new_var = var * 0.9 + batch_var * 0.1;
  check_same(net.collect_params().get("rm").data(), new_mean);
  check_same(net.collect_params().get("rv").data(), new_var);
  check_same(net(x), normalised(new_mean, new_var));

  // written, it predicts elsewhere as here, unless the batch's statistics are asked for
  onnx::save(net, folder / "again.onnx");
  const onnx::format::Node again = onnx::format::read_model(folder / "again.onnx").graph.nodes[0];
  CHECK(again.attributes[0].i == 0);
  CHECK(again.outputs == std::vector<std::string>{"y"});
  check_same(onnx::load(folder / "again.onnx")(x), normalised(new_mean, new_var));
  onnx::format::Model left_out = m;  // outputs and inputs that are left out have no name
  left_out.graph.nodes[0].outputs = {"z", "", ""};
  left_out.graph.nodes.push_back(onnx_node("Clip", {"z", "", ""}, {"y"}));
  write(left_out, folder / "left_out.onnx");
  onnx::save(onnx::load(folder / "left_out.onnx"), folder / "again.onnx");
  CHECK(onnx::format::read_model(folder / "again.onnx").graph.nodes[0].attributes[0].i == 0);
  onnx::format::Model both = m;
  both.graph.outputs.push_back(onnx_info("m1", ElementType::float32, {3}));
  write(both, folder / "both.onnx");
  onnx::save(onnx::load(folder / "both.onnx"), folder / "again.onnx");
  CHECK(onnx::format::read_model(folder / "again.onnx").graph.nodes[0].attributes[0].i == 1);

  onnx::Block constants = onnx::load(folder / "net.onnx", {.trainable = false});
  check_same(constants(x), normalised(mean, var));

  // the node's other outputs are what the standard says
  m.graph.outputs.push_back(onnx_info("m1", ElementType::float32, {3}));
  m.graph.outputs.push_back(onnx_info("v1", ElementType::float32, {3}));
  write(m, folder / "three.onnx");
  const std::vector<NDArray> all = onnx::load(folder / "three.onnx").forward({x});
  check_same(all[0], normalised(mean, var));
  check_same(all[1], new_mean);
  check_same(all[2], new_var);
}

TEST_CASE("onnx weights: models whose parameters have the same names are parts of one net", "[onnx]") {
  const ScratchFolder folder;
  std::vector<onnx::Block> nets;
  for (int i = 0; i < 3; ++i) {
    write(product(nd.random_normal({4, 5}), nd.random_normal({5})), folder / "net.onnx");
    nets.push_back(onnx::load(folder / "net.onnx"));
  }
  const NDArray x = nd.random_normal({3, 4});
  const auto part = [&](int i) { return nets[size_t(i)].specialize({{3, 4}}); };
  const NDArray y0 = nets[0](x), y1 = nets[1](x), y2 = nets[2](x);
  gluon::SymbolBlock early = part(1);  // with a trace of before
  early(x);

  Outer net(Two(part(0), part(1)), part(2));
  net.hybridize();
  check_same(net(x), y0 + y1 + y2);
  std::vector<std::string> names;
  for (const gluon::Parameter& p : net.collect_params()) names.push_back(p.name());
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{"b", "second_b", "second_w.transposed", "third_b", "third_w.transposed",
                                          "w.transposed"});

  // one net twice is one set of parameters
  Two same(part(0), part(0));
  same.hybridize();
  check_same(same(x), y0 * 2);
  CHECK(same.collect_params().size() == 2);

  // the models themselves still run, at other shapes too, and are written
  check_same(nets[1](x), y1);
  CHECK(nets[1](nd.ones({7, 4})).shape() == Shape(7, 5));
  onnx::save(early, folder / "early.onnx");
  check_same(onnx::load(folder / "early.onnx")(x), y1);
  early.export_model((folder / "early").string());
  check_same(gluon::SymbolBlock::imports(folder / "early-symbol.json", {"data"}, folder / "early-0000.params")(x), y1);
  onnx::save(net, folder / "all.onnx");
  check_same(onnx::load(folder / "all.onnx")(x), y0 + y1 + y2);
  net.export_model((folder / "all").string());
  check_same(gluon::SymbolBlock::imports(folder / "all-symbol.json", {"data"}, folder / "all-0000.params")(x),
             y0 + y1 + y2);

  // files have paths
  net.save_parameters(folder / "all.params");
  for (const gluon::Parameter& p : net.collect_params()) p.set_data(nd.zeros(p.shape()));
  check_same(net(x), nd.zeros({3, 5}));
  net.load_parameters(folder / "all.params");
  check_same(net(x), y0 + y1 + y2);
  const NDArray w = nd.random_normal({4, 5}), b = nd.random_normal({5});
  gluon::load_weights(net, {{"two.second.w", w}, {"two.second.b", b}}, {.allow_missing = true});
  check_same(nets[1](x), nd.dot(x, w) + b);
  check_same(net(x), y0 + nets[1](x) + y2);

  // each trains its own
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 1}));
  autograd::record([&] { return net(x).sum(); }).backward();
  trainer.step(1);
  for (const onnx::Block& one : nets) {
    CHECK(nd.min(nd.abs(one.collect_params("(.*_)?b").begin()->grad())).asscalar<float>() == 3);
  }
}

}  // namespace onnx_weights_test
