// Symbol files: those of real MXNet of many releases, our own, damaged ones.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/graph/symbol.h"
#include "kaon/tests/support/files.h"
#include "kaon/tests/support/skip.h"

namespace symbol_json_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

std::string text_of(const fs::path& file) {
  std::string text = bytes_of(file);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

const SymbolNode& find(const Symbol& symbol, const std::string& name) {
  for (const SymbolNode* n : topological_order(symbol.entries())) {
    if (n->name == name) return *n;
  }
  FAIL("no node named " << name);
  throw 0;
}

template <class Op>
const Op& attrs_of(const Symbol& symbol, const std::string& name) {
  const SymbolNode& n = find(symbol, name);
  REQUIRE(n.op == &Op::def);
  return *static_cast<const Op*>(n.attrs.get());
}

// The same graph as if the program had made it: what the file said beyond the graph is forgotten.
Symbol forget_file(const Symbol& symbol) { return Symbol(symbol.entries()); }

std::string replace(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// data -> FullyConnected "fc" with these attributes, as a file of this release.
std::string one_layer(const std::string& attrs, int version = 10500, const std::string& op = "FullyConnected",
                      const std::string& inputs = "[[0, 0, 0], [1, 0, 0], [2, 0, 0]]") {
  return fmt::format(R"({{"nodes": [{{"op": "null", "name": "data", "inputs": []}},
    {{"op": "null", "name": "w", "inputs": []}}, {{"op": "null", "name": "b", "inputs": []}},
    {{"op": "{}", "name": "fc", "attrs": {}, "inputs": {}}}],
    "arg_nodes": [0, 1, 2], "heads": [[3, 0, 0]], "attrs": {{"mxnet_version": ["int", {}]}}}})",
                     op, attrs, inputs, version);
}

const char* const rewritten_files[] = {"LeNet-symbol.json",
                                       "cifar_resnet20_v1-symbol.json",
                                       "clojure_imclassification_test-symbol.json.ref",
                                       "djl_old_resnet18_v1-symbol.json",
                                       "go_test-symbol.json",
                                       "sagemaker_default_model-symbol.json",
                                       "sagemaker_dummy_model-symbol.json",
                                       "sagemaker_gluon_model.json"};

const char* const other_layouts[] = {"det1-symbol.json",      "det2-symbol.json",
                                     "djl_mlp-symbol.json",   "djl_squeezenet1.0-symbol.json",
                                     "resnet-18-symbol.json", "save_000800.json"};

const char* const own_files[] = {"perceptron-symbol.json", "shared_statistics-symbol.json", "many_inputs-symbol.json"};

}  // namespace

TEST_CASE("symbols of MXNet are written again byte for byte", "[symbol_json]") {
  for (const char* name : own_files) {
    INFO(name);
    CHECK(Symbol::load(data_file(name)).tojson() == text_of(data_file(name)));
  }
  if (!fs::exists(fixtures_dir())) return skip("no MXNet files at " + fixtures_dir().string());
  for (const char* name : rewritten_files) {
    INFO(name);
    CHECK(Symbol::load(fixtures_dir() / name).tojson() == text_of(fixtures_dir() / name));
  }
}

TEST_CASE("what MXNet counts is computed as MXNet does", "[symbol_json]") {
  // versions of updated variables, numbers of outputs: without what the file says
  for (const char* name : own_files) {
    INFO(name);
    CHECK(forget_file(Symbol::load(data_file(name))).tojson() == text_of(data_file(name)));
  }
  if (!fs::exists(fixtures_dir())) return skip("no MXNet files at " + fixtures_dir().string());
  for (const char* name : rewritten_files) {
    INFO(name);
    const std::string text = text_of(fixtures_dir() / name);
    std::string expected = replace(text, "\"attr\": ", "\"attrs\": ");
    const size_t number = expected.rfind("[\"int\", ") + 8;
    expected.replace(number, expected.find(']', number) - number, "10901");
    CHECK(forget_file(Symbol::load_json(text)).tojson() == expected);
  }
}

TEST_CASE("other layouts are read and written in MXNet's", "[symbol_json]") {
  if (!fs::exists(fixtures_dir())) return skip("no MXNet files at " + fixtures_dir().string());
  for (const char* name : other_layouts) {
    INFO(name);
    const Symbol symbol = Symbol::load(fixtures_dir() / name);
    const std::string text = symbol.tojson();
    const Symbol again = Symbol::load_json(text);
    CHECK(again.tojson() == text);
    CHECK(again.list_inputs() == symbol.list_inputs());
    CHECK(again.list_outputs() == symbol.list_outputs());
  }
  const Symbol detector = Symbol::load(fixtures_dir() / "det1-symbol.json");
  CHECK(detector.num_outputs() == 2);
  CHECK(attrs_of<op::Convolution>(detector, "conv1").kernel == Shape(3, 3));
}

TEST_CASE("operators that Kaon lacks are named", "[symbol_json]") {
  CHECK_THROWS_WITH(Symbol::load_json(one_layer("{}", 10500, "WarpCTC"), "ocr.json"),
                    "ocr.json: operator 'WarpCTC' of node 'fc' is not known to Kaon");
  CHECK_THROWS_AS(Symbol::load_json(one_layer("{}", 10500, "_backward_relu")), IoError);  // is not MXNet's
  const std::string two = R"({"nodes": [{"op": "A", "name": "a", "inputs": []}, {"op": "B", "name": "b", "inputs": []},
    {"op": "A", "name": "c", "inputs": []}], "heads": [[0, 0]]})";
  CHECK_THROWS_WITH(Symbol::load_json(two),
                    "JSON text: operator 'A' of node 'a', operator 'B' of node 'b' are not known to Kaon");
  if (!fs::exists(fixtures_dir())) return skip("no MXNet files at " + fixtures_dir().string());
  CHECK_THROWS_WITH(Symbol::load(fixtures_dir() / "keyky_mobilenet-symbol.json"),
                    Contains("operator 'ChannelwiseConvolution' of node ") && Contains(" not known to Kaon"));
}

TEST_CASE("auxiliary states follow from the operators", "[symbol_json]") {
  const Symbol two = Symbol::load(data_file("shared_statistics-symbol.json"));
  CHECK(two.list_arguments() == std::vector<std::string>{"data", "gamma", "beta"});
  CHECK(two.list_auxiliary_states() == std::vector<std::string>{"running_mean", "running_var"});
  CHECK(two.list_outputs() == std::vector<std::string>{"drop_output", "bn_a_output"});
  if (!fs::exists(fixtures_dir())) return skip("no MXNet files at " + fixtures_dir().string());
  const Symbol net = Symbol::load(fixtures_dir() / "cifar_resnet20_v1-symbol.json");
  CHECK(net.list_auxiliary_states().size() == 42);
  CHECK(net.list_inputs().size() == 108);
}

TEST_CASE("files of 0.8 get what they leave out", "[symbol_json]") {
  if (!fs::exists(fixtures_dir())) return skip("no MXNet files at " + fixtures_dir().string());
  const Symbol s = Symbol::load(fixtures_dir() / "save_000800.json");
  auto text = [&](const char* node, const char* key) {
    const auto& texts = find(s, node).text_attrs;
    auto it = texts.find(key);
    return it == texts.end() ? std::string("missing") : it->second;
  };
  CHECK(text("data", "__ctx_group__") == "stage1");
  CHECK(text("data", "__lr_mult__") == "0.2");
  CHECK(text("fc1_weight", "__lr_mult__") == "1.2");  // from weight_lr_mult of fc1
  CHECK(text("fc1_weight", "__wd_mult__") == "0.3");
  CHECK(text("fc1", "__wd_mult__") == "0.3");
  CHECK(text("fc1", "weight_lr_mult") == "missing");
  CHECK(text("fc2", "__lr_mult__") == "0.01");
  CHECK(text("softmax", "__ctx_group__") == "stage2");
  CHECK(s.list_auxiliary_states() == std::vector<std::string>{"batchnorm0_moving_mean", "batchnorm0_moving_var"});
  CHECK(text("batchnorm0_moving_mean", "__ctx_group__") == "stage2");
  CHECK(text("batchnorm0_moving_mean", "__init__") == "[\"zero\", {}]");
  CHECK(text("batchnorm0_moving_var", "__init__") == "[\"one\", {}]");
  CHECK(attrs_of<op::FullyConnected>(s, "fc1").num_hidden == 128);
}

TEST_CASE("shapes and element types of variables", "[symbol_json]") {
  auto load = [](const std::string& attrs, const std::string& graph_attrs = R"("mxnet_version": ["int", 10500])") {
    return Symbol::load_json(R"({"nodes": [{"op": "null", "name": "w", "attrs": )" + attrs +
                             R"(, "inputs": []}], "arg_nodes": [0], "heads": [[0, 0, 0]], "attrs": {)" + graph_attrs +
                             "}}")
        .entry()
        .node->outputs.at(0);
  };
  CHECK(load(R"j({"__shape__": "(128, 0)", "__dtype__": "1"})j") == TensorMeta{Shape(128, -1), DType::float64});
  CHECK(load(R"j({"__shape__": "(2,)", "__dtype__": "11"})j") == TensorMeta{Shape(2), DType::uint64});
  CHECK(load(R"j({"__shape__": "(128L, 3L)"})j") == TensorMeta{Shape(128, 3), DType::float32});
  CHECK(load(R"j({"__shape__": "()", "__dtype__": "-1"})j") == TensorMeta{});
  CHECK(load(R"j({"__shape__": "None"})j") == TensorMeta{});
  const std::string numpy = R"("is_np_shape": ["int", 1], "mxnet_version": ["int", 10600])";
  CHECK(load(R"j({"__shape__": "(0, -1)"})j", numpy).shape == Shape(0, -1));
  CHECK(load(R"j({"__shape__": "()"})j", numpy).shape == Shape());
  CHECK_THROWS_WITH(load(R"j({"__shape__": "(2, x)"})j"),
                    Contains("node 0 'w'") && Contains("'__shape__' cannot be '(2, x)'"));
  CHECK_THROWS_WITH(load(R"j({"__shape__": "(-2,)"})j"), Contains("__shape__"));
  CHECK_THROWS_WITH(load(R"j({"__dtype__": "13"})j"), Contains("__dtype__"));
}

TEST_CASE("symbols composed here are written as MXNet 1.9.1 writes the same program", "[symbol_json]") {
  Symbol x =
      sym.as("fc1").FullyConnected(sym.var("data"), sym.var("fc1_weight"), sym.var("fc1_bias"), {.num_hidden = 16});
  x = sym.as("relu1").Activation(x, {.act_type = ActivationType::relu});
  x = sym.as("fc2").FullyConnected(x, sym.var("fc2_weight"), {.num_hidden = 3, .flatten = false});
  CHECK(sym.as("softmax").SoftmaxOutput(x, sym.var("softmax_label")).tojson() ==
        text_of(data_file("perceptron-symbol.json")));

  std::vector<Symbol> inputs;
  for (int i = 0; i < 11; ++i) inputs.push_back(sym.var(fmt::format("x{}", i)));
  x = sym.as("flat").reshape(sym.as("total").add_n(inputs), {0, -1});
  CHECK(sym.as("turn").transpose(x, {1, 0}).tojson() == text_of(data_file("many_inputs-symbol.json")));
}

TEST_CASE("saving and loading a file", "[symbol_json]") {
  ScratchFolder folder;
  const Symbol s = sym.relu(sym.var("data") * 2.5);
  s.save(folder / "net-symbol.json");
  CHECK(folder.count() == 1);
  const Symbol back = Symbol::load(folder / "net-symbol.json");
  CHECK(back.tojson() == s.tojson());
  CHECK(back.list_arguments() == std::vector<std::string>{"data"});
  CHECK_THROWS_AS(Symbol::load(folder / "missing.json"), IoError);
  CHECK_THROWS_AS(s.save(folder / "missing" / "net.json"), IoError);
}

TEST_CASE("what MXNet cannot hold is not written", "[symbol_json]") {
  const Symbol x = sym.var("x");
  CHECK_THROWS_WITH(sym.as("back")._backward_relu(x, x).tojson(),
                    Contains("'back'") && Contains("'_backward_relu', which MXNet does not have"));
  const Symbol c = Symbol::constant(nd.ones({2}), "two_ones");
  CHECK_THROWS_WITH((x + c).tojson(), Contains("'two_ones' is a constant"));
  CHECK_THROWS_AS(Symbol().tojson(), ValueError);
}

TEST_CASE("names with quotes, line ends and other scripts", "[symbol_json]") {
  for (const std::string& name :
       {std::string("a\"b\\c\n\r\td"), std::string("Größe 名"), std::string("\xff\xfe"), std::string("\x01")}) {
    const std::string text = sym.var(name).tojson();
    const Symbol back = Symbol::load_json(text);
    CHECK(back.name() == name);
    CHECK(back.tojson() == text);
  }
}

TEST_CASE("attributes of operators", "[symbol_json]") {
  const Symbol s =
      Symbol::load_json(one_layer(R"({"num_hidden": " 7", "no_bias": "0", "__lr_mult__": "2", "bias_wd_mult": "0"})"));
  CHECK(attrs_of<op::FullyConnected>(s, "fc").num_hidden == 7);
  CHECK(find(s, "b").text_attrs.at("__wd_mult__") == "0");
  CHECK_THAT(s.tojson(), Contains("\"num_hidden\": \" 7\""));  // as it stood

  auto fails = [](const std::string& attrs, const std::string& why) {
    CHECK_THROWS_WITH(Symbol::load_json(one_layer(attrs), "m.json"), "m.json: node 3 'fc' (FullyConnected): " + why);
  };
  fails(R"({"num_hidden": "7", "hidden": "8"})", "attribute 'hidden' (with the value '8') is not known to Kaon");
  fails(R"({"num_hidden": "seven"})", "attribute 'num_hidden' cannot be 'seven'");
  fails(R"({"no_bias": "False"})", "the attribute 'num_hidden' is missing");
  fails(R"({"num_hidden": 7})", "attribute 'num_hidden': expected a text, found 7");
  fails(R"({"num_hidden": "7", "no_bias": "True"})", "takes 2 inputs with these attributes, the file gives 3");

  // MXNet looks at no attribute of an operator that has none
  const Symbol zeros = Symbol::load_json(R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "zeros_like",
    "name": "z", "attrs": {"dtype": "int64"}, "inputs": [[0, 0, 0]]}], "arg_nodes": [0], "heads": [[1, 0, 0]]})");
  CHECK_THAT(zeros.tojson(), Contains("\"dtype\": \"int64\""));  // as it stood
  CHECK(zeros.infer_shape({{"x", {2, 3}}}).outputs[0] == Shape(2, 3));

  // its default is 0
  const Symbol masked = Symbol::load_json(sym.SequenceMask(sym.var("x"), {.value = -0.0}).tojson());
  CHECK(std::signbit(attrs_of<op::SequenceMask>(masked, masked.name()).value));

  // scratch sizes and choices of other libraries
  const std::string conv =
      R"j({"kernel": "(3,3)", "num_filter": "4", "workspace": "512", "cudnn_tune": "off", "cudnn_off": "1"})j";
  CHECK_NOTHROW(Symbol::load_json(one_layer(conv, 10500, "Convolution")));
  // a variable carries what it likes
  CHECK_NOTHROW(Symbol::load_json(replace(one_layer(R"({"num_hidden": "1"})"), R"("name": "w",)",
                                          R"("name": "w", "attrs": {"num_hidden": "x", "anything": ""},)")));
}

TEST_CASE("numbers of inputs and outputs are checked", "[symbol_json]") {
  const std::string joined = R"({"num_args": "3", "dim": "0"})";
  CHECK(attrs_of<op::Concat>(Symbol::load_json(one_layer(joined, 10500, "Concat")), "fc").num_args == 3);
  CHECK_THROWS_WITH(Symbol::load_json(one_layer(R"({"num_args": "2"})", 10500, "concat")), Contains("takes 2 inputs"));
  auto split = [](const char* outputs) {
    return one_layer(fmt::format(R"({{"num_outputs": "{}"}})", outputs), 10500, "split", "[[0, 0, 0]]");
  };
  CHECK_NOTHROW(Symbol::load_json(split("4")));
  CHECK_THROWS_WITH(Symbol::load_json(split("0")), Contains("cannot have 0 outputs"));
  CHECK_THROWS_WITH(Symbol::load_json(split("-3")), Contains("cannot have -3 outputs"));
  CHECK_THROWS_WITH(Symbol::load_json(split("2000000000")), Contains("cannot have 2000000000 outputs"));
  CHECK_THROWS_WITH(Symbol::load_json(replace(split("4"), "[[3, 0, 0]]", "[[3, 4, 0]]")),
                    Contains("\"heads\" names output 4 of 'fc', which has 4"));
  CHECK_THROWS_WITH(Symbol::load_json(replace(split("4"), "[[0, 0, 0]]", "[[0, 1, 0]]")),
                    Contains("node 3 'fc'") && Contains("uses output 1 of 'data', which has 1"));
}

TEST_CASE("references are checked", "[symbol_json]") {
  const std::string good = one_layer(R"({"num_hidden": "1"})");
  REQUIRE_NOTHROW(Symbol::load_json(good));
  auto fails = [&](const std::string& from, const std::string& to, const std::string& why) {
    INFO(to);
    CHECK_THROWS_WITH(Symbol::load_json(replace(good, from, to)), Contains(why));
  };
  fails("[2, 0, 0]]", "[4, 0, 0]]", "inputs of node 3 'fc', entry 2: expected a number from 0 to 3, found 4");
  fails("[2, 0, 0]]", "[-1, 0, 0]]", "expected a number from 0 to 3, found -1");
  fails("[2, 0, 0]]", "[1.5, 0, 0]]", "expected a number from 0 to 3");
  fails("[2, 0, 0]]", "[\"2\", 0, 0]]", "expected a number from 0 to 3, found \"2\"");
  fails("[2, 0, 0]]", "[2]]", "expected [node, output, version]");
  fails("[2, 0, 0]]", "[99999999999999999999, 0, 0]]", "expected a number from 0 to 3");
  fails("[2, 0, 0]]", "[3, 0, 0]]", "cycle");
  fails("[[3, 0, 0]]", "[]", "\"heads\" names no output");
  fails("[[3, 0, 0]]", "[[7, 0, 0]]", "\"heads\"");
  fails("[0, 1, 2],", "[0, 1, 3],", "\"arg_nodes\" names it, but it is no variable");
  fails("\"heads\"", "\"head\"", "unknown key \"head\"");
  fails("\"name\": \"b\",", "\"name\": \"b\", \"colour\": 1,", "node 2 'b': unknown key \"colour\"");
  fails("\"name\": \"b\",", "\"name\": \"b\", \"subgraphs\": [{}],", "subgraph 0: the key \"nodes\" is missing");
  fails("\"name\": \"b\", ", "", "node 2 '': expected a text under the key \"name\"");
  fails("[\"int\", 10500]", "10500", "attribute 'mxnet_version' of the graph");
  fails("[\"int\", 10500]", "[\"int\", 10500], \"k\": [\"v\", [1, {\"a\": 0.5}]]",
        "attribute 'k' of the graph: expected whole");
}

TEST_CASE("text that is no JSON", "[symbol_json]") {
  CHECK_THROWS_WITH(Symbol::load_json("{\n  \"nodes\": [}", "m.json"),
                    Contains("m.json: no JSON: ") && Contains("at line 2, column 13 (byte 14)"));
  CHECK_THROWS_AS(Symbol::load_json(""), IoError);
  CHECK_THROWS_AS(Symbol::load_json("[]"), IoError);
  CHECK_THROWS_AS(Symbol::load_json("{}"), IoError);
  CHECK_THROWS_AS(Symbol::load_json("{\"nodes\": [], \"heads\": []}"), IoError);
  CHECK_THROWS_AS(Symbol::load_json("{} {}"), IoError);
  CHECK_THROWS_AS(Symbol::load_json(std::string(100'000, '[')), IoError);
  CHECK_THROWS_AS(Symbol::load_json(bytes_of(data_file("list.nd"))), IoError);
}

TEST_CASE("nodes may stand in any order, and long chains need no stack", "[symbol_json]") {
  const int n = 100'000;
  std::string text = "{\"nodes\": [";
  for (int i = 0; i < n; ++i) {  // the last node first
    text += fmt::format(R"({{"op": "relu", "name": "r{}", "inputs": [[{}, 0, 0]]}}, )", i, i + 1);
  }
  text += fmt::format(R"({{"op": "null", "name": "x", "inputs": []}}], "arg_nodes": [{}], "heads": [[0, 0, 0]]}})", n);
  const Symbol s = Symbol::load_json(text);
  CHECK(s.name() == "r0");
  CHECK(s.list_arguments() == std::vector<std::string>{"x"});
  const Symbol again = Symbol::load_json(s.tojson());
  CHECK(topological_order(again.entries()).size() == size_t(n) + 1);
  CHECK_THROWS_WITH(
      Symbol::load_json(replace(text, fmt::format("\"inputs\": [[{}, 0, 0]]", n), "\"inputs\": [[5, 0, 0]]")),
      Contains("cycle"));
}

TEST_CASE("every beginning of a symbol file is refused", "[symbol_json]") {
  for (const char* name : own_files) {
    const std::string whole = text_of(data_file(name));
    REQUIRE_FALSE(whole.empty());
    for (size_t n = 0; n < whole.size(); ++n) REQUIRE_THROWS_AS(Symbol::load_json(whole.substr(0, n)), IoError);
  }
}

TEST_CASE("damaged symbol files give an IoError or a symbol", "[symbol_json]") {
  std::mt19937_64 random(20240502);
  const std::string digits = "0123456789";
  int refused = 0, read = 0;
  for (const char* name : own_files) {
    const std::string whole = text_of(data_file(name));
    for (int i = 0; i < 3000; ++i) {
      std::string damaged = whole;
      if (i % 2) {
        damaged = mutate(whole, random);
      } else {  // JSON that still parses: other digits
        for (size_t k = 1 + random() % 3; k > 0; --k) {
          const size_t at = damaged.find_first_of(digits, random() % damaged.size());
          if (at != damaged.npos) damaged[at] = digits[random() % digits.size()];
        }
      }
      try {
        const Symbol s = Symbol::load_json(damaged);
        Symbol::load_json(s.tojson());
        ++read;
      } catch (const IoError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 1000);
  CHECK(read > 500);
}

TEST_CASE("symbol json: names under which MXNet does not broadcast want equal shapes, the others do not") {
  struct Name {
    const char* name;
    bool broadcasts;
  };
  for (auto [name, broadcasts] : {Name{"elemwise_add", false},
                                  {"_plus", false},
                                  {"_Plus", false},
                                  {"_grad_add", false},
                                  {"elemwise_sub", false},
                                  {"elemwise_mul", false},
                                  {"elemwise_div", false},
                                  {"_mod", false},
                                  {"_power", false},
                                  {"_maximum", false},
                                  {"_hypot", false},
                                  {"_equal", false},
                                  {"_Logical_Xor", false},
                                  {"broadcast_add", true},
                                  {"broadcast_plus", true},
                                  {"broadcast_minus", true},
                                  {"broadcast_hypot", true}}) {
    INFO(name);
    const Symbol s = Symbol::load_json(one_layer("{}", 10901, name, "[[0, 0, 0], [1, 0, 0]]"));
    CHECK(s.infer_shape({{"data", {2, 3}}, {"w", {2, 3}}}).outputs[0] == Shape(2, 3));
    const Shapes different{{"data", {2, 3}}, {"w", {1, 3}}};
    CachedGraph graph(s, {"data", "w"}, {}, "file");
    const NDArray x = nd.ones({2, 3}), y = nd.ones({1, 3});
    const NDArray* inputs[] = {&x, &y};
    const auto run = [&] { return graph.call(inputs, std::source_location::current())[0].shape(); };
    if (broadcasts) {
      CHECK(s.infer_shape(different).outputs[0] == Shape(2, 3));
      CHECK(run() == Shape(2, 3));
    } else {
      CHECK_THROWS_WITH(s.infer_shape(different), Contains("inputs must have one shape, got (2, 3) and (1, 3)"));
      CHECK_THROWS_WITH(run(), Contains("inputs must have one shape, got (2, 3) and (1, 3)") && Contains("fc"));
    }
    CHECK_THAT(s.tojson(), Contains(fmt::format("\"op\": \"{}\"", name)));
  }
}

}  // namespace symbol_json_test
