#include "symbols.h"

#include <cstdio>
#include <filesystem>

namespace symbol_test {

using namespace symbols;
using Catch::Contains;
using Strings = std::vector<std::string>;

namespace {
Sym dense(const char* name, const Sym& data, const char* units = "3") {
  return Sym::call("FullyConnected", name, {{"num_hidden", units}}, {&data});
}
}  // namespace

TEST_CASE("an operator's missing inputs become variables that have its attributes", "[mxnet]") {
  const Sym data = Sym::variable("data");
  Sym fc = Sym::atomic("FullyConnected", {{"num_hidden", "3"}, {"lr_mult", "2"}, {"__mood__", "calm"}});
  ok(fc.compose("fc", {&data}, {"data"}));
  CHECK(fc.arguments() == Strings{"data", "fc_weight", "fc_bias"});
  CHECK(fc.outputs() == Strings{"fc_output"});
  CHECK(fc.attribute("lr_mult") == "2");
  CHECK(fc.attribute("__lr_mult__") == "2");
  CHECK(fc.attribute("_value_index") == "0");
  const Strings pairs = fc.list(MXSymbolListAttr);  // keys and values: the count is of pairs
  CHECK(pairs.size() == 3 * 4);
  uint32_t n = 0;
  const char** texts = nullptr;
  ok(MXSymbolListAttr(fc.get(), &n, &texts));
  const Strings all = texts_of(2 * n, texts);
  for (const char* key : {"fc_weight$num_hidden", "fc_bias$lr_mult", "fc_weight$__lr_mult__", "fc$__mood__"}) {
    CHECK(std::find(all.begin(), all.end(), key) != all.end());
  }
  ok(MXSymbolListAttrShallow(fc.get(), &n, &texts));
  CHECK(n == 4);

  const Sym bn = Sym::call("BatchNorm", "bn", {}, {&fc});
  CHECK(bn.states() == Strings{"bn_moving_mean", "bn_moving_var"});
  CHECK(bn.outputs() == Strings{"bn_output"});
  CHECK_THAT(bn.tojson(), Contains(R"("__init__": "[\"one\", {}]")"));
  const Sym statistics = Sym::call("BatchNorm", "bn", {{"output_mean_var", "True"}}, {&fc});
  CHECK(statistics.outputs() == Strings{"bn_output", "bn_mean", "bn_var"});
  const Sym no_bias = Sym::call("FullyConnected", "f", {{"num_hidden", "3"}, {"no_bias", "True"}}, {});
  CHECK(no_bias.arguments() == Strings{"f_data", "f_weight"});
  const Sym gru =
      Sym::call("RNN", "r",
                {{"state_size", "2"}, {"num_layers", "1"}, {"mode", "gru"}, {"use_sequence_length", "True"}}, {&data});
  CHECK(gru.arguments() == Strings{"data", "r_parameters", "r_state", "r_sequence_length"});
  const Sym joined = Sym::call("Concat", "c", {{"num_args", "3"}}, {&data, &fc});
  CHECK(joined.arguments() == Strings{"data", "fc_weight", "fc_bias", "c_arg2"});
}

TEST_CASE("composition refuses what an operator does not take", "[mxnet]") {
  const Sym data = Sym::variable("data");
  const Sym pair = Sym::group({&data, &data});
  Sym fc = Sym::atomic("FullyConnected", {{"num_hidden", "3"}});
  CHECK(fc.compose("fc", {&data}, {"dat"}) == -1);
  CHECK_THAT(MXGetLastError(), Contains("dat") && Contains("[0]data"));
  CHECK(fc.compose("fc", {&pair}) == -1);
  CHECK_THAT(MXGetLastError(), Contains("2 outputs"));
  CHECK(fc.compose("fc", {&data, &data, &data, &data}) == -1);
  CHECK_THAT(MXGetLastError(), Contains("requires 3, provided 4"));
  ok(fc.compose("fc", {&data}));  // failures have left it as it was
  CHECK(fc.compose("fc", {&data}) == -1);
  CHECK(fc.compose("fc", {&data}, {"nothing"}) == -1);

  Sym bn = Sym::atomic("BatchNorm");
  CHECK(bn.compose("bn", {&data, &data, &data, &fc}) == -1);
  CHECK_THAT(MXGetLastError(), Contains("must be a variable"));

  SymbolHandle h = nullptr;
  CHECK(Sym::create("FullyConnected", {}, &h) == -1);
  CHECK_THAT(MXGetLastError(), Contains("num_hidden"));
  CHECK(Sym::create("FullyConnected", {{"num_hidden", "x"}}, &h) == -1);
  CHECK(Sym::create("FullyConnected", {{"num_hidden", "3"}, {"units", "3"}}, &h) == -1);
  CHECK_THAT(MXGetLastError(), Contains("units"));
  CHECK(Sym::create("FullyConnected", {{"num_hidden", "3"}, {"weight_lr_mult", "1"}}, &h) == -1);
  CHECK_THAT(MXGetLastError(), Contains("sym = YourSymbolName(weight=w)"));
  CHECK(Sym::create("_foreach", {}, &h) == -1);
  CHECK_THAT(MXGetLastError(), Contains("num_outputs"));
  CHECK(MXSymbolCreateAtomicSymbol(nullptr, 0, nullptr, nullptr, &h) == -1);
  CHECK(NNSymbolCompose(nullptr, "x", 0, nullptr, nullptr) == -1);
}

TEST_CASE("variables of a composed symbol are replaced in place, also by what was made later", "[mxnet]") {
  const Sym x = Sym::variable("x");
  Sym net = dense("out", x);
  const Sym copy = net.by(MXSymbolCopy);
  const Sym y = Sym::variable("y");
  const Sym first = dense("first", y, "4");
  ok(net.compose("net", {&first}, {"x"}));
  CHECK(net.arguments() == Strings{"y", "first_weight", "first_bias", "out_weight", "out_bias"});
  CHECK(net.outputs() == Strings{"net_output"});
  CHECK(copy.arguments() == Strings{"x", "out_weight", "out_bias"});
  CHECK(Sym::json(net.tojson()).arguments() == net.arguments());
}

TEST_CASE("a program in a node becomes what it is made of", "[mxnet]") {
  const Sym x = Sym::variable("x"), data = Sym::variable("data"), w = Sym::variable("w");
  const Sym inner = Sym::call("BatchNorm", "norm", {}, {&x});
  Sym outer = Sym::atomic("_CachedOp", {{"subgraph", inner.tojson()}});
  ok(outer.compose("call", {&data, &w}));
  CHECK(outer.arguments() == Strings{"data", "w", "norm_beta"});
  CHECK(outer.states() == Strings{"norm_moving_mean", "norm_moving_var"});
  CHECK(outer.outputs() == inner.outputs());
  SymbolHandle none = nullptr;
  CHECK(Sym::create("_CachedOp", {{"subgraph", "{"}}, &none) == -1);
  CHECK(Sym::create("_CachedOp", {}, &none) == -1);
  Sym again = Sym::atomic("_CachedOp", {{"subgraph", inner.tojson()}});
  CHECK(again.compose("call", {&x, &x, &x, &x, &x, &x}) == -1);
  CHECK_THAT(MXGetLastError(), Catch::Contains("takes 5 inputs, got 6"));
}

TEST_CASE("parts of a symbol: outputs, internals, children, inputs", "[mxnet]") {
  const Sym x = Sym::variable("x");
  const Sym parts = Sym::call("SliceChannel", "cut", {{"num_outputs", "3"}}, {&x});
  uint32_t n = 0;
  ok(MXSymbolGetNumOutputs(parts.get(), &n));
  CHECK(n == 3);
  CHECK(parts.outputs() == Strings{"cut_output0", "cut_output1", "cut_output2"});
  CHECK(parts.output(1).attribute("_value_index") == "1");
  SymbolHandle h = nullptr;
  CHECK(MXSymbolGetOutput(parts.get(), 3, &h) == -1);
  const Sym left = parts.output(0), right = parts.output(2);
  const Sym sum = Sym::call("elemwise_add", "sum", {}, {&left, &right});
  CHECK(sum.by(MXSymbolGetInternals).outputs() ==
        Strings{"x", "cut_output0", "cut_output1", "cut_output2", "sum_output"});
  CHECK(sum.by(MXSymbolGetChildren).outputs() == Strings{"cut_output0", "cut_output2"});
  const Sym none = x.by(MXSymbolGetChildren);
  CHECK(none.outputs().empty());
  CHECK(none.arguments().empty());
  const char* text = nullptr;
  CHECK(MXSymbolSaveToJSON(none.get(), &text) == -1);
  SymbolHandle* handles = nullptr;
  int count = 0;
  ok(MXSymbolGetInputSymbols(sum.get(), &handles, &count));
  REQUIRE(count == 1);
  CHECK(Sym(handles[0]).outputs() == Strings{"x"});
  const Sym empty = Sym::group({});
  ok(MXSymbolGetNumOutputs(empty.get(), &n));
  CHECK(n == 0);
  const Sym again = sum.by(MXGenAtomicSymbolFromSymbol);
  CHECK(again.outputs() == Strings{"output"});
  CHECK(MXGenAtomicSymbolFromSymbol(x.get(), &h) == -1);
}

TEST_CASE("attributes are set for one node, and seen through every symbol of it", "[mxnet]") {
  const Sym x = Sym::variable("x");
  const Sym other = x.by(MXShallowCopySymbol);
  ok(MXSymbolSetAttr(x.get(), "lr_mult", "0.5"));
  CHECK(other.attribute("__lr_mult__") == "0.5");
  CHECK(other.attribute("nothing").empty());
  ok(MXSymbolSetAttr(x.get(), "name", "renamed"));
  CHECK(other.outputs() == Strings{"renamed"});
  CHECK(MXSymbolSetAttr(x.get(), "__shape__", "four") == -1);
  CHECK(MXSymbolSetAttr(x.get(), "__dtype__", "99") == -1);
  ok(MXSymbolSetAttr(x.get(), "__shape__", "(0, 4)"));
  const Sym fc = dense("fc", x);
  CHECK(MXSymbolSetAttr(fc.get(), "num_hidden", "many") == -1);
  CHECK(fc.attribute("num_hidden") == "3");
  ok(MXSymbolSetAttr(fc.get(), "num_hidden", "5"));
  CHECK(fc.attribute("num_hidden") == "5");
  const Sym both = Sym::group({&x, &fc});
  CHECK(MXSymbolSetAttr(both.get(), "mood", "calm") == -1);
  CHECK(both.attribute("mood").empty());
  const char* text = nullptr;
  int success = 1;
  ok(MXSymbolGetName(both.get(), &text, &success));
  CHECK(success == 0);
}

TEST_CASE("symbols are written as MXNet writes them", "[mxnet]") {
  const Sym x = Sym::variable("a");
  const Sym pool = Sym::call("Pooling", "p", {{"kernel", "(2, 2)"}}, {&x});
  // the outputs of max pooling are two to MXNet
  const std::string expected = R"json({
  "nodes": [
    {
      "op": "null", 
      "name": "a", 
      "inputs": []
    }, 
    {
      "op": "Pooling", 
      "name": "p", 
      "attrs": {"kernel": "(2, 2)"}, 
      "inputs": [[0, 0, 0]]
    }
  ], 
  "arg_nodes": [0], 
  "node_row_ptr": [0, 1, 3], 
  "heads": [[1, 0, 0]], 
  "attrs": {"mxnet_version": ["int", 10901]}
})json";
  CHECK(pool.tojson() == expected);
  int before = 0;
  ok(MXSetIsNumpyShape(1, &before));
  CHECK_THAT(pool.tojson(), Contains(R"("is_np_shape": ["int", 1])"));
  ok(MXSetIsNumpyShape(before, &before));

  const std::string file = (std::filesystem::temp_directory_path() / "kaon_mxnet_symbol.json").string();
  ok(MXSymbolSaveToFile(pool.get(), file.c_str()));
  SymbolHandle h = nullptr;
  ok(MXSymbolCreateFromFile(file.c_str(), &h));
  CHECK(Sym(h).tojson() == pool.tojson());
  std::filesystem::remove(file);
  CHECK(MXSymbolCreateFromFile(file.c_str(), &h) == -1);
  CHECK(MXSymbolCreateFromJSON("{}", &h) == -1);
  CHECK(MXSymbolCreateFromJSON("[", &h) == -1);
  CHECK(MXSymbolSaveToFile(pool.get(), "/no/such/folder/x.json") == -1);
  const char* text = nullptr;
  ok(MXSymbolPrint(pool.get(), &text));
  CHECK(std::string(text) ==
        "Symbol Outputs:\n\toutput[0]=p(0)\nVariable:a\n--------------------\nOp:Pooling, Name=p\nInputs:\n"
        "\targ[0]=a(0) version=0\nAttrs:\n\tkernel=(2, 2)\n");
}

TEST_CASE("casts of mixed precision are taken out", "[mxnet]") {
  const Sym a = Sym::variable("a"), b = Sym::variable("b");
  const Sym cast = Sym::call("amp_cast", "c", {{"dtype", "float16"}}, {&a});
  const Sym sum = Sym::call("elemwise_add", "s", {}, {&cast, &b});
  const Sym plain = sum.by(MXSymbolRemoveAmpCast);
  CHECK(plain.by(MXSymbolGetInternals).outputs() == Strings{"a", "b", "s_output"});
  CHECK(sum.by(MXSymbolGetInternals).outputs() == Strings{"a", "c_output", "b", "s_output"});
}

TEST_CASE("casts of mixed precision are put in", "[mxnet]") {
  const Sym x = Sym::variable("x"), w = Sym::variable("w");
  const Sym fc = Sym::call("FullyConnected", "fc", {{"num_hidden", "3"}, {"no_bias", "True"}}, {&x, &w});
  const Sym act = Sym::call("Activation", "act", {{"act_type", "softrelu"}}, {&fc});
  const Sym top = Sym::call("exp", "top", {}, {&act});
  const auto convert = [&](std::vector<const char*> low, std::vector<const char*> conditional, int type = 2) {
    std::vector<const char*> full{"exp", "an operator that Kaon lacks"}, names{"act_type"}, values{"softrelu", "other"},
        parameters{"w"}, arguments{"x"};
    const std::vector<int> offsets = conditional.empty() ? std::vector{0} : std::vector{0, 2};
    const int data_type = 0;
    SymbolHandle h = nullptr;
    const int result = MXReducePrecisionSymbol(
        top.get(), &h, 1, &data_type, uint32_t(offsets.size()), offsets.data(), &type, 1, uint32_t(low.size()),
        uint32_t(full.size()), 0, uint32_t(conditional.size()), 0, 1, low.data(), full.data(), nullptr,
        conditional.data(), nullptr, names.data(), values.data(), parameters.data(), arguments.data());
    return std::pair(result, h);
  };
  const auto internals = [&](const std::vector<const char*>& low, const std::vector<const char*>& conditional) {
    const auto [result, h] = convert(low, conditional);
    ok(result);
    return Sym(h).by(MXSymbolGetInternals).outputs();
  };
  CHECK(internals({}, {}) == Strings{"x", "w", "fc_output", "act_output", "top_output"});
  // w, a parameter that nothing else reads, is of float16 itself
  CHECK(internals({"FullyConnected"}, {"Activation"}) == Strings{"x", "x_amp_cast_float16_output", "w", "fc_output",
                                                                 "fc_output_amp_cast_float32_output", "act_output",
                                                                 "top_output"});
  CHECK(internals({"FullyConnected"}, {}) == Strings{"x", "x_amp_cast_float16_output", "w", "fc_output", "act_output",
                                                     "act_output_amp_cast_float32_output", "top_output"});
  CHECK(convert({"exp"}, {}).first == -1);
  CHECK_THAT(MXGetLastError(), Contains("the operator 'exp' is in two lists"));
  CHECK(convert({}, {}, 4).first == -1);
  CHECK_THAT(MXGetLastError(), Contains("target_dtype must be float16 or bfloat16, got int32"));
}

}  // namespace symbol_test
