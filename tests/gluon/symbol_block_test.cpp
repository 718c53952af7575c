#include "kaon/gluon/symbol_block.h"

#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace symbol_block_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
using gluon::SymbolBlock;
using Strings = std::vector<std::string>;

namespace {
struct Conv : gluon::HybridBlock<Conv> {
  nn::Conv2D conv = child("conv", nn::Conv2D(4, {.kernel_size = 3}));
  nn::BatchNorm bn = child("bn", nn::BatchNorm());
  nn::Dense out = child("out", nn::Dense(5));
  auto hybrid_forward(auto F, auto x) { return out(F.relu(bn(conv(x))) * F.array({0.5}, {1})); }
};
}  // namespace

namespace {
// Reads its data's shape, so that its trace holds for this shape alone.
struct Reads : gluon::HybridBlock<Reads> {
  nn::Dense out = child("out", nn::Dense(5, {.flatten = false}));
  auto hybrid_forward(auto F, auto x) { return out(x) + F.arange(double(x.shape()[1])).reshape({1, -1, 1}); }
};
}  // namespace

TEST_CASE("export: a trace that has read shapes is refused, or says its shapes", "[gluon]") {
  ScratchFolder folder;
  const std::string prefix = (folder / "m").string();
  Reads net = ready(Reads());
  net.hybridize();
  net(numbers({1, 8, 4}));
  const NDArray x = numbers({2, 3, 4}), y = net(x);
  CHECK_THROWS_WITH(net.export_model(prefix),
                    Contains("reads shapes or dtypes: what it has traced holds for data (2, 3, 4) float32 alone") &&
                        Contains(".fixed_shapes = true"));
  CHECK(folder.count() == 0);
  net.export_model(prefix, 0, {.fixed_shapes = true});
  SymbolBlock same = SymbolBlock::imports(prefix + "-symbol.json", {"data"}, prefix + "-0000.params");
  CHECK(same_bits(same(x), y));
  CHECK_THROWS_WITH(same(numbers({2, 8, 4})), Contains("data") && Contains("(2, 3, 4)") && Contains("(2, 8, 4)"));
  same.hybridize();
  CHECK(same_bits(same(x), y));
  CHECK_THROWS_WITH(same(numbers({1, 3, 4})), Contains("data") && Contains("(2, 3, 4)") && Contains("(1, 3, 4)"));
  Mlp other = ready(Mlp());
  other.hybridize();
  other(numbers({1, 3}));
  other.export_model(prefix, 1, {.fixed_shapes = true});  // has read none: for any
  CHECK_NOTHROW(SymbolBlock::imports(prefix + "-symbol.json", {"data"}, prefix + "-0001.params")(numbers({7, 3})));
}

TEST_CASE("export: needs hybridize() and a call", "[gluon]") {
  ScratchFolder folder;
  Mlp net = ready(Mlp());
  net(numbers({1, 3}));
  CHECK_THROWS_WITH(net.export_model((folder / "m").string()), Contains("call hybridize() and run the net once"));
  CHECK_THROWS_AS(net.export_model((folder / "m").string(), -1), ValueError);
  net.hybridize();
  CHECK_THROWS_AS(net.export_model((folder / "m").string()), StateError);
  CHECK(folder.count() == 0);
  net(numbers({1, 3}));
  net.export_model((folder / "m").string(), 7);
  CHECK(fs::exists(folder / "m-symbol.json"));
  CHECK(fs::exists(folder / "m-0007.params"));
}

TEST_CASE("users row 52: export and import give the same output, constants and statistics included", "[gluon]") {
  ScratchFolder folder;
  Conv net = ready(Conv());
  NDArray x = numbers({2, 3, 8, 8});
  net.hybridize({.exact = true});
  autograd::record([&] { return net(x); });  // moves the running statistics
  NDArray y = net(x);
  net.export_model((folder / "net").string(), 1);
  Strings names;
  for (const auto& [name, array] : nd_file::load(folder / "net-0001.params")) names.push_back(name);
  CHECK(names == Strings{"arg:conv_weight", "arg:conv_bias", "arg:bn_gamma", "arg:bn_beta", "aux:bn_running_mean",
                         "aux:bn_running_var", "arg:out_weight", "arg:out_bias", "arg:constant0"});
  auto back = SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "net-0001.params");
  back.hybridize({.exact = true});
  CHECK(same_bits(back(x), y));
  CHECK(same_bits(back(numbers({5, 3, 8, 8})), net(numbers({5, 3, 8, 8}))));
  // what was imported can be exported
  back.export_model((folder / "again").string(), 1);
  auto again = SymbolBlock::imports(folder / "again-symbol.json", {"data"}, folder / "again-0001.params");
  again.hybridize({.exact = true});
  CHECK(same_bits(again(x), y));
}

TEST_CASE("symbol block: gradients flow through it, statistics are updated", "[gluon]") {
  ScratchFolder folder;
  Conv net = ready(Conv());
  NDArray x = numbers({2, 3, 8, 8});
  net.hybridize({.exact = true});
  net(x);
  net.export_model((folder / "net").string());
  auto back = SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "net-0000.params");
  back.hybridize({.exact = true});
  autograd::record([&] { return net(x); }).backward();
  autograd::record([&] { return back(x); }).backward();
  CHECK(same_bits(back.collect_params().get("conv_weight").grad(), net.conv.weight.grad()));
  CHECK(same_bits(back.collect_params().get("bn_running_mean").data(), net.bn.running_mean.data()));
  CHECK(back.collect_params().get("bn_running_mean").grad_req() == GradReq::null);
}

TEST_CASE("symbol block: several inputs and outputs", "[gluon]") {
  Symbol a = sym.var("a"), b = sym.var("b");
  SymbolBlock block(Symbol::group({a + b, a * b, sym.tanh(a)}), {"b", "a"});
  NDArray x = numbers({3}, 1), y = numbers({3}, 2);
  auto out = block.forward({y, x});
  REQUIRE(out.size() == 3);
  CHECK(same_bits(out[1], x * y));
  CHECK(same_bits(out[2], nd.tanh(x)));
  CHECK_THROWS_WITH(block.forward({x}), Contains("takes 2 inputs (b, a), got 1"));
  CHECK_THROWS_WITH(block(sym.var("x")), Contains("takes 2 inputs (b, a), got 1"));
  CHECK(block.compose_on({sym.var("x"), sym.var("y")}).list_arguments() == Strings{"y", "x"});
  CHECK_THROWS_WITH(SymbolBlock(a + b, {"c"}), Contains("no input 'c'"));
  const SymbolBlock two(Symbol::group({a * a, sym.tanh(a)}), {"a"});
  CHECK_THROWS_WITH(two(x), Contains("has 2 outputs") && Contains("tanh") && Contains("forward({x}) gives all"));
  CHECK(two.forward({x}).size() == 2);
  CHECK(same_bits(SymbolBlock(a * a, {"a"})(x), x * x));
}

TEST_CASE("symbol block: without a parameter file initialize() chooses the values; shapes follow from the input",
          "[gluon]") {
  Symbol program = sym.FullyConnected(sym.var("data"), sym.var("w"), sym.var("b"), {.num_hidden = 4});
  SymbolBlock block(program, {"data"});
  CHECK_THROWS_WITH(block(numbers({2, 3})), Contains("w is not initialized"));
  block.initialize(init::One());
  NDArray x = nd.ones({2, 3});
  CHECK(values(block(x)) == std::vector<double>(8, 4));
  CHECK(block.collect_params().get("w").shape() == Shape(4, 3));
}

namespace {
struct WithBody : gluon::HybridBlock<WithBody> {
  SymbolBlock body;
  Fc head = child("head", Fc(2));
  explicit WithBody(const Symbol& s) : HybridBlock("net"), body(child("body", SymbolBlock(s, {"data"}))) {}
  auto hybrid_forward(auto, auto x) { return head(body(x)); }
};
}  // namespace

TEST_CASE("symbol block: inside another block, imperative, hybridized and as a symbol", "[gluon]") {
  Symbol features = sym.as("hidden").tanh(sym.FullyConnected(sym.var("data"), sym.var("w"), {.num_hidden = 4}));
  WithBody net(features);
  ready(net);
  NDArray x = numbers({2, 3});
  NDArray y = net(x);
  CHECK(net.collect_params().contains("body_w"));
  net.hybridize({.exact = true});
  CHECK(same_bits(net(x), y));
  Symbol s = net(sym.var("data"));
  CHECK(s.list_arguments() == Strings{"data", "body_w", "head_weight", "head_bias"});
  CHECK(s.get_internals().list_outputs()[3] == "body_hidden_output");
  ScratchFolder folder;
  net.save_parameters(folder / "p");
  WithBody other(features);
  other.load_parameters(folder / "p");
  other.hybridize({.exact = true});
  CHECK(same_bits(other(x), y));
}

TEST_CASE("symbol block: parts of a program: features before the last layer", "[gluon]") {
  ScratchFolder folder;
  Mlp net = ready(Mlp());
  NDArray x = numbers({2, 3});
  net.hybridize();
  net(x);
  net.export_model((folder / "net").string());
  Symbol internals = Symbol::load(folder / "net-symbol.json").get_internals();
  Strings names = internals.list_outputs();
  size_t at = size_t(std::find(names.begin(), names.end(), "fc1_fwd_output") - names.begin());
  REQUIRE(at < names.size());
  SymbolBlock block(internals.output(int(at)), {"data"});
  block.collect_params().load(folder / "net-0000.params", false, true);
  require_close(block(x), values(nd.FullyConnected(x, net.fc1.weight.data(), net.fc1.bias.data(), {.num_hidden = 16})));
}

TEST_CASE("symbol block: dtypes come from the file", "[gluon]") {
  ScratchFolder folder;
  Mlp net = ready(Mlp());
  net(numbers({2, 3}));
  net.cast(DType::float64);
  net.hybridize();
  NDArray x = numbers({2, 3}).astype(DType::float64);
  NDArray y = net(x);
  net.export_model((folder / "net").string());
  auto back = SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "net-0000.params");
  CHECK(back.collect_params().get("fc1_weight").dtype() == DType::float64);
  CHECK(same_bits(back(x), y));
}

TEST_CASE("symbol block: files that do not fit are refused with names", "[gluon]") {
  ScratchFolder folder;
  Mlp net = ready(Mlp());
  net.hybridize();
  net(numbers({2, 3}));
  net.export_model((folder / "net").string());
  CHECK_THROWS_WITH(SymbolBlock::imports(folder / "none-symbol.json", {"data"}), Contains("none-symbol.json"));
  nd_file::save(folder / "half", {{"arg:fc1_weight", net.fc1.weight.data()}});
  CHECK_THROWS_WITH(SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "half"),
                    Contains("'fc1_bias'") && Contains("missing"));
  CHECK_THROWS_WITH(SymbolBlock::imports(folder / "net-symbol.json", {"x"}), Contains("no input 'x'"));
  NamedArrays arrays = nd_file::load(folder / "net-0000.params");
  arrays.emplace_back("arg:stranger", nd.ones({1}));
  nd_file::save(folder / "more", arrays);
  CHECK_THROWS_WITH(SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "more"),
                    Contains("'stranger'"));
  NDArray x = numbers({2, 3});
  CHECK(same_bits(SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "more", {}, false, true)(x),
                  SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "net-0000.params")(x)));
  auto half = SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "half", {}, true);
  CHECK_THROWS_WITH(half(x), Contains("fc1_bias is not initialized"));
  half.initialize();
  CHECK(half(x).shape() == Shape(2, 4));
  arrays.pop_back();
  arrays[0].second = nd.ones({7});
  nd_file::save(folder / "wrong", arrays);
  CHECK_THROWS_WITH(SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "wrong"),
                    Contains("fc1_weight has shape (16, 0)") && Contains("got (7,) in " + (folder / "wrong").string()));
}

}  // namespace symbol_block_test
