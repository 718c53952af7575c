// ONNX files that are not what they should be.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/kaon.h"

namespace onnx_files_test {

using namespace kaon;
using namespace kaon::onnx::format;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("kaon_onnx_files_" + std::to_string(std::random_device()()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  fs::path write(const std::string& name, const std::string& data) const {
    std::ofstream(path / name, std::ios::binary) << data;
    return path / name;
  }
};

Tensor tensor(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
  Tensor t;
  t.name = name;
  t.dims = dims;
  t.type = ElementType::float32;
  auto own = std::make_shared<const std::vector<float>>(values);
  t.bytes = std::as_bytes(std::span(*own));
  t.keeper = own;
  return t;
}

ValueInfo info(const std::string& name, const std::vector<int64_t>& dims) {
  ValueInfo v;
  v.name = name;
  v.type = ElementType::float32;
  v.has_shape = true;
  for (int64_t d : dims) v.dims.push_back({d, d < 0 ? "n" : ""});
  return v;
}

Node node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  Node n;
  n.op_type = op;
  n.name = "the_" + op;
  n.inputs = inputs;
  n.outputs = outputs;
  return n;
}

// y = x + w
Model sum() {
  Model m;
  m.ir_version = 8;
  m.opsets[""] = 17;
  m.graph.name = "sum";
  m.graph.inputs = {info("x", {-1, 3})};
  m.graph.outputs = {info("y", {-1, 3})};
  m.graph.initializers = {tensor("w", {3}, {1, 2, 3})};
  m.graph.nodes = {node("Add", {"x", "w"}, {"y"})};
  return m;
}

// A tensor with external data, as a message: the fields that write_model does not write.
std::string with_external(const std::string& location, const std::string& offset, const std::string& length) {
  const auto entry = [](const std::string& key, const std::string& value) {
    WireWriter w;
    w.text(1, key);
    w.text(2, value);
    return w;
  };
  WireWriter t;
  t.integers(1, std::vector<int64_t>{3});
  t.integer(2, 1);
  t.text(8, "w");
  t.message(13, entry("location", location));
  if (!offset.empty()) t.message(13, entry("offset", offset));
  if (!length.empty()) t.message(13, entry("length", length));
  t.integer(14, 1);
  WireWriter add, x, y, graph, opset, model;
  add.text(1, "x"), add.text(1, "w"), add.text(2, "y"), add.text(4, "Add");
  x.text(1, "x"), y.text(1, "y");
  graph.message(1, add), graph.message(5, t), graph.message(11, x), graph.message(12, y);
  opset.text(1, ""), opset.integer(2, 17);
  model.integer(1, 8), model.message(7, graph), model.message(8, opset);
  return model.data();
}

}  // namespace

TEST_CASE("onnx files: what is written is read back") {
  Folder folder;
  const fs::path file = folder.write("sum.onnx", write_model(sum()));
  onnx::Block block = onnx::load(file);
  CHECK(block.inputs().at(0).name == "x");
  CHECK(block.inputs().at(0).dim_names.at(0) == "n");
  CHECK(block.outputs().at(0).name == "y");
  CHECK(block(nd.array({{10, 20, 30}})).asvector<float>() == std::vector<float>{11, 22, 33});
  CHECK(block(nd.ones({2, 3})).shape() == Shape(2, 3));
  CHECK_THROWS_AS(block(nd.ones({2, 4})), ShapeError);
  CHECK_THROWS_AS(block(nd.ones({2, 3}, {.dtype = DType::float64})), TypeError);
}

TEST_CASE("onnx files: bytes of bool other than 0 are 1") {
  auto own = std::make_shared<std::vector<uint8_t>>(std::vector<uint8_t>{0, 0x7f, 1, 2});
  Tensor t;
  t.dims = {4};
  t.type = ElementType::boolean;
  t.bytes = std::as_bytes(std::span(*own));
  t.keeper = own;
  CHECK(t.values().asvector<int>() == std::vector<int>{0, 1, 1, 1});
}

TEST_CASE("onnx files: nodes may come in any order") {
  Folder folder;
  Model m = sum();
  m.graph.nodes = {node("Neg", {"x"}, {"a"}), node("Add", {"a", "w"}, {"b"}), node("Mul", {"b", "a"}, {"c"}),
                   node("Sub", {"c", "w"}, {"d"}), node("Add", {"d", "b"}, {"y"})};
  const NDArray x = nd.array({{10, 20, 30}});
  const std::vector<float> expected = onnx::load(folder.write("ordered.onnx", write_model(m)))(x).asvector<float>();
  std::vector<size_t> order{0, 1, 2, 3, 4};
  while (std::next_permutation(order.begin(), order.end())) {
    Model mixed = m;
    for (size_t i = 0; i < order.size(); ++i) mixed.graph.nodes[i] = m.graph.nodes[order[i]];
    const onnx::Block block = onnx::load(folder.write("mixed.onnx", write_model(mixed)));
    REQUIRE(block(x).asvector<float>() == expected);
    onnx::save(block, folder.path / "sorted.onnx");
    const Model sorted = read_model(folder.path / "sorted.onnx");
    for (size_t i = 0; i < order.size(); ++i) REQUIRE(sorted.graph.nodes[i].outputs == m.graph.nodes[i].outputs);
  }
  // in the branches of a node, which reads a value that a later node makes
  const auto branch = [&](std::vector<Node> nodes) {
    Attribute a;
    a.type = Attribute::Type::graph;
    auto graph = std::make_shared<Graph>();
    graph->name = "branch";
    graph->nodes = std::move(nodes);
    graph->outputs = {info("t", {-1, 3})};
    a.graphs = {graph};
    return a;
  };
  Node choice = node("If", {"is"}, {"y"});
  choice.attributes = {branch({node("Neg", {"s"}, {"t"}), node("Add", {"b", "w"}, {"s"})}),
                       branch({node("Identity", {"x"}, {"t"})})};
  choice.attributes[0].name = "then_branch", choice.attributes[1].name = "else_branch";
  m.graph.nodes = {choice, node("Greater", {"first", "zero"}, {"is"}), node("Add", {"x", "w"}, {"b"}),
                   node("ReduceMax", {"x"}, {"first"})};
  Attribute& keepdims = m.graph.nodes[3].attributes.emplace_back();
  keepdims.name = "keepdims", keepdims.type = Attribute::Type::integer;  // 0
  m.graph.initializers.push_back(tensor("zero", {}, {0}));
  onnx::Block block = onnx::load(folder.write("choice.onnx", write_model(m)));
  CHECK(block(x).asvector<float>() == std::vector<float>{-12, -24, -36});
  CHECK(block(0 - x).asvector<float>() == std::vector<float>{-10, -20, -30});
}

TEST_CASE("onnx files: arrays that are written begin at multiples of 64 bytes, and are read where they lie") {
  Folder folder;
  // lengths around those at which the numbers of bytes in front of an array take another byte
  for (const int64_t n : {16, 17, 25, 29, 30, 31, 4080, 4090, 4096, 524288}) {
    Model m = sum();
    m.graph.initializers = {tensor("w", {3}, {1, 2, 3})};
    for (int i = 0; i < 3; ++i) {
      m.graph.initializers.push_back(
          tensor(std::string(size_t(i) * 7 + 1, 'a'), {n}, std::vector<float>(size_t(n), 1)));
    }
    const fs::path file = folder.write("aligned.onnx", write_model(m));
    const Model read = read_model(file);
    REQUIRE(read.graph.initializers.size() == 4);
    for (size_t i = 1; i < 4; ++i) {
      const Tensor& t = read.graph.initializers[i];
      CAPTURE(n, i, t.place);
      CHECK(reinterpret_cast<uintptr_t>(t.bytes.data()) % 64 == 0);
      const NDArray values = t.values();
      CHECK(static_cast<const void*>(values.data<const float>().data()) == t.bytes.data());
      CHECK(values.asvector<float>() == std::vector<float>(size_t(n), 1));
    }
  }
}

TEST_CASE("onnx files: a file that ends anywhere, or with any byte changed, is read or refused") {
  Folder folder;
  const std::string whole = write_model(sum());
  for (size_t n = 0; n < whole.size(); ++n) {
    const fs::path file = folder.write("short.onnx", whole.substr(0, n));
    try {
      onnx::load(file);
    } catch (const IoError& e) {
      CHECK_THAT(e.what(), Catch::Contains("short.onnx"));
    }
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = whole;
      changed[i] = char(changed[i] ^ (1 << bit));
      const fs::path file = folder.write("changed.onnx", changed);
      try {
        onnx::load(file)(nd.ones({1, 3}));
      } catch (const Error&) {
      }
    }
  }
}

TEST_CASE("onnx files: tensors whose numbers do not fit are refused with the offset") {
  Folder folder;
  const auto refused = [&](const Tensor& t, const std::string& why) {
    Model m = sum();
    m.graph.initializers = {t};
    const fs::path file = folder.write("tensor.onnx", write_model(m));
    CHECK_THROWS_WITH(onnx::load(file), Catch::Contains(why) && Catch::Contains("offset"));
  };
  refused(tensor("w", {4}, {1, 2, 3}), "has 12 bytes, expected 16");
  refused(tensor("w", {-3}, {1, 2, 3}), "the dimension -3");
  refused(tensor("w", {int64_t(1) << 40, int64_t(1) << 40}, {1}), "too many elements");
  Tensor strange = tensor("w", {3}, {1, 2, 3});
  strange.type = ElementType(99);
  refused(strange, "unknown element type 99");
}

TEST_CASE("onnx files: external data stay in the model's folder") {
  Folder folder;
  const float values[] = {0, 1, 2, 3};
  folder.write("data.bin", std::string(reinterpret_cast<const char*>(values), sizeof(values)));
  const fs::path good = folder.write("good.onnx", with_external("data.bin", "4", "12"));
  CHECK(onnx::load(good)(nd.zeros({3})).asvector<float>() == std::vector<float>{1, 2, 3});
  const auto refused = [&](const std::string& location, const std::string& offset, const std::string& length,
                           const std::string& why) {
    const fs::path file = folder.write("bad.onnx", with_external(location, offset, length));
    CHECK_THROWS_WITH(onnx::load(file), Catch::Contains(why));
  };
  refused("../data.bin", "0", "12", "leaves the model's folder");
  refused("/etc/passwd", "0", "12", "leaves the model's folder");
  refused("a/../../data.bin", "0", "12", "leaves the model's folder");
  refused("data.bin", "8", "12", "in a file of 16 bytes");
  refused("data.bin", "17", "0", "begin at 17 of 16 bytes");
  refused("data.bin", "-1", "12", "offset of external data is '-1'");
  refused("data.bin", "99999999999999999999", "12", "offset of external data is");
  refused("missing.bin", "0", "12", "missing.bin");
  fs::create_symlink("/etc", folder.path / "link");
  refused("link/passwd", "0", "12", "leaves the model's folder");
}

#ifdef __linux__
TEST_CASE("onnx files: parameters are the memory of the file, which training does not change") {
  Folder folder;
  std::vector<float> values(19);
  std::iota(values.begin(), values.end(), 0.f);
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  const fs::path data = folder.write("data.bin", bytes);
  onnx::Block block = onnx::load(folder.write("good.onnx", with_external("data.bin", "64", "12")));  // aligned
  const NDArray w = block.collect_params().get("w").data();
  const auto at = reinterpret_cast<uintptr_t>(w.data<const float>().data());
  bool is_mapped = false;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2 || at < begin || at >= end) continue;
    is_mapped = line.find(data.filename().string()) != std::string::npos;
  }
  CHECK(is_mapped);
  gluon::Trainer trainer(block.collect_params(), optimizer::SGD({.learning_rate = 1}));
  autograd::record([&] { return block(nd.zeros({3})).sum(); }).backward();
  trainer.step(1);
  CHECK(block(nd.zeros({3})).asvector<float>() == std::vector<float>{15, 16, 17});
  std::ifstream in(data, std::ios::binary);
  CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == bytes);
}
#endif

TEST_CASE("onnx files: messages inside one another have an end") {
  // a graph in an attribute of a node in a graph ...
  WireWriter graph;
  for (int i = 0; i < 200; ++i) {
    WireWriter attribute, node, outer;
    attribute.text(1, "body");
    attribute.message(6, graph);
    node.message(5, attribute);
    outer.message(1, node);
    graph = outer;
  }
  WireWriter model;
  model.message(7, graph);
  Folder folder;
  CHECK_THROWS_WITH(onnx::load(folder.write("deep.onnx", model.data())), Catch::Contains("inside one another"));
}

TEST_CASE("onnx files: an attribute that lacks its tensor or graph is refused") {
  Folder folder;
  for (const auto& [type, what] : {std::pair{4, "tensor"}, std::pair{5, "graph"}}) {
    WireWriter attribute, node, graph, model;
    attribute.text(1, "body");
    attribute.integer(20, type);
    node.message(5, attribute);
    graph.message(1, node);
    model.message(7, graph);
    CHECK_THROWS_WITH(onnx::load(folder.write("lacks.onnx", model.data())),
                      Catch::Contains("attribute 'body'") && Catch::Contains(what) && Catch::Contains("offset"));
  }
}

TEST_CASE("onnx files: what the graph lacks is named when it runs") {
  Folder folder;
  Model m = sum();
  m.graph.nodes = {node("Imaginary", {"x"}, {"h"}), node("Add", {"x", "w"}, {"y"})};
  onnx::Block unused = onnx::load(folder.write("unused.onnx", write_model(m)));
  CHECK(unused.summary().unsupported == std::vector<std::string>{"Imaginary"});
  CHECK(unused(nd.ones({1, 3})).asvector<float>() == std::vector<float>{2, 3, 4});  // no output needs it
  m.graph.nodes = {node("Imaginary", {"x"}, {"h"}), node("Add", {"h", "w"}, {"y"})};
  onnx::Block used = onnx::load(folder.write("used.onnx", write_model(m)));
  CHECK_THROWS_WITH(used(nd.ones({1, 3})), Catch::Contains("the operator Imaginary of version 17 is not supported") &&
                                               Catch::Contains("node 'the_Imaginary'"));
  m.graph.nodes = {node("Add", {"x", "w"}, {"y"}), node("Mul", {"x", "w"}, {"y"})};
  onnx::Block twice = onnx::load(folder.write("twice.onnx", write_model(m)));
  CHECK_THROWS_WITH(twice(nd.ones({1, 3})),
                    Catch::Contains("the value 'y' is made by several nodes") && Catch::Contains("the_Mul"));
  m.graph.nodes = {node("Add", {"nothing", "w"}, {"y"})};
  onnx::Block missing = onnx::load(folder.write("missing.onnx", write_model(m)));
  CHECK_THROWS_WITH(missing(nd.ones({1, 3})), Catch::Contains("'nothing' is made by no node"));
}

TEST_CASE("onnx files: values of branches without types are written without them") {
  Folder folder;
  Model m = sum();
  const auto branch = [](const char* op) {
    auto g = std::make_shared<Graph>();
    g->name = op;
    g->nodes = {node(op, {"x", "w"}, {std::string("r") + op})};
    g->outputs.emplace_back();
    g->outputs[0].name = std::string("r") + op;  // no type: other tools infer it
    return g;
  };
  Node choice = node("If", {"which"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    Attribute a;
    a.name = name, a.type = Attribute::Type::graph;
    a.graphs = {branch(name[0] == 't' ? "Add" : "Mul")};
    choice.attributes.push_back(a);
  }
  ValueInfo which = info("which", {});
  which.type = ElementType::boolean;
  m.graph.inputs.push_back(which);
  m.graph.nodes = {choice};
  const fs::path file = folder.write("if.onnx", write_model(m)), again = folder.path / "again.onnx";
  onnx::save(onnx::load(file), again);
  const ValueInfo output = read_model(again).graph.nodes[0].attributes[0].graphs[0]->outputs[0];
  CHECK(output.name == "rAdd");
  CHECK(output.type == ElementType::undefined);
  CHECK(!output.as_read);
}

}  // namespace onnx_files_test
