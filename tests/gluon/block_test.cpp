// Blocks as a tree: names, parameters, files, plain blocks.
#include "kaon/gluon/block.h"

#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace block_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
using Strings = std::vector<std::string>;

namespace {

Strings names_of(const gluon::ParameterDict& p) {
  Strings names;
  for (const auto& x : p) names.push_back(x.name());
  return names;
}

// Not traceable: the depth depends on a value.
struct Plain : gluon::Block {
  Mlp body = child("body", Mlp());
  Fc head = child("head", Fc(3));
  Plain() : Block("plain") {}
  NDArray operator()(const NDArray& x) const {
    NDArray y = body(x);
    if (y.sum().asscalar<float>() > 0) y = y * 2;
    return head(y);
  }
};

struct Outer : gluon::HybridBlock<Outer> {
  Mlp mlp = child("mlp", Mlp());
  gluon::Parameter scale = param("scale", {1}, {.init = init::One()});
  Outer() : HybridBlock("outer") {}
  auto hybrid_forward(auto F, auto x) { return F.broadcast_mul(mlp(x), F(scale)); }
};

}  // namespace

TEST_CASE("block: names are paths; own parameters come first; a regular expression selects", "[gluon]") {
  Outer net;
  CHECK(names_of(net.collect_params()) ==
        Strings{"scale", "mlp_fc1_weight", "mlp_fc1_bias", "mlp_fc2_weight", "mlp_fc2_bias"});
  CHECK(names_of(net.collect_params(".*weight")) == Strings{"mlp_fc1_weight", "mlp_fc2_weight"});
  CHECK(names_of(net.collect_params("mlp_fc1_bias|scale")) == Strings{"scale", "mlp_fc1_bias"});
  CHECK(net.mlp.fc1.name() == "fc1");
  CHECK(net.class_name() == "outer");
  CHECK_THROWS_WITH(net.collect_params().get("nothing"), Contains("mlp_fc2_bias"));
  CHECK_THROWS_AS(net.collect_params("*("), ValueError);
}

TEST_CASE("block: a copy of the handle is the same block", "[gluon]") {
  Mlp net = ready(Mlp()), copy = net;
  NDArray x = numbers({2, 5});
  NDArray y = net(x);
  CHECK(same_bits(copy(x), y));
  copy.hybridize();
  net(x);
  CHECK(*net.symbols >= 1);  // the original is hybridized too
  copy.fc1.weight.set_data(nd.zeros({16, 5}));
  CHECK_FALSE(same_bits(net(x), y));
}

TEST_CASE("block: children of a plain block are hybridized, its own code runs each time", "[gluon][traces]") {
  Plain net = ready(Plain());
  NDArray x = numbers({2, 5});
  NDArray expected = net(x);
  net.hybridize({.static_alloc = true, .exact = true});
  for (int i = 0; i < 4; ++i) CHECK(same_bits(net(x), expected));
  CHECK(*net.body.arrays == 1);
  CHECK(*net.body.symbols == 1);
}

namespace {
struct Wrong : gluon::HybridBlock<Wrong> {
  Fc inside = child("inside", Fc(2));
  Fc outside = Fc(2);
  Wrong() : HybridBlock("wrong") {}
  auto hybrid_forward(auto, auto x) { return outside(inside(x)); }
};
}  // namespace

TEST_CASE("block: calling what is not a registered child throws, naming both", "[gluon]") {
  Wrong net;
  net.initialize();
  net.outside.initialize();
  NDArray x = numbers({2, 5});
  for (bool outside_active : {false, true}) {
    net.outside.hybridize(outside_active);
    CHECK_THROWS_AS(net(x), StateError);
    CHECK_THROWS_WITH(net(x), Contains("wrong calls fc") && Contains("child("));
  }
  net.hybridize();
  CHECK_THROWS_WITH(net(x), Contains("wrong calls fc"));
  CHECK_THROWS_WITH(net(sym.var("data")), Contains("wrong calls fc"));
  CHECK(ready(Fc(2))(x).shape() == Shape(2, 2));  // the thread is as before
}

namespace {
struct Shared : gluon::HybridBlock<Shared> {
  Fc one = child("one", Fc(5)), two = child("two", one);
  Shared() : HybridBlock("shared") {}
  auto hybrid_forward(auto F, auto x) { return two(F.tanh(one(x))); }
};
}  // namespace

namespace {
// Layers taken from a list, as a net with a loop over its stages does.
struct Stages : gluon::HybridBlock<Stages> {
  nn::HybridSequential list = child("list", nn::HybridSequential(Fc(6), Fc(3)));
  Stages() : HybridBlock("stages") {}
  auto hybrid_forward(auto F, auto x) {
    x = list[0](x);
    auto first = x;
    return std::pair(list[1](F.tanh(x)), first);
  }
};
}  // namespace

TEST_CASE("block: a Sequential may serve as a list: its layers can be called one by one", "[gluon]") {
  Stages net = ready(Stages());
  NDArray x = numbers({2, 5});
  auto [y, first] = net(x);
  CHECK(first.shape() == Shape(2, 6));
  net.hybridize({.exact = true});
  auto [planned, planned_first] = net(x);
  CHECK(same_bits(planned, y));
  CHECK(same_bits(planned_first, first));
  CHECK(net(sym.var("data")).first.list_arguments() ==
        Strings{"data", "list_fc0_weight", "list_fc0_bias", "list_fc1_weight", "list_fc1_bias"});
}

TEST_CASE("block: one block in two places has one name and one set of values", "[gluon]") {
  Shared net = ready(Shared());
  CHECK(names_of(net.collect_params()) == Strings{"one_weight", "one_bias"});
  NDArray x = numbers({3, 5});
  NDArray y = net(x);
  net.hybridize({.exact = true});
  CHECK(same_bits(net(x), y));
  NDArray w = net.one.weight.data(), b = net.one.bias.data();
  auto layer = [&](const NDArray& v) { return nd.FullyConnected(v, w, b, {.num_hidden = 5}); };
  CHECK(same_bits(y, layer(nd.tanh(layer(x)))));
  autograd::record([&] { return net(x); }).backward();
  NDArray planned = net.one.weight.grad().copy();
  autograd::record([&] { return layer(nd.tanh(layer(x))); }).backward();
  CHECK(same_bits(planned, net.one.weight.grad()));
}

namespace {
struct Tied : gluon::HybridBlock<Tied> {
  Fc inner;
  explicit Tied(const Fc& fc) : HybridBlock("tied"), inner(child("inner", fc)) {}
  auto hybrid_forward(auto, auto x) { return inner(x); }
};
}  // namespace

TEST_CASE("block: parameters shared by two nets keep the first owner's names", "[gluon]") {
  Outer owner;
  Tied user(owner.mlp.fc2);
  CHECK(names_of(user.collect_params()) == Strings{"mlp_fc2_weight", "mlp_fc2_bias"});
  ready(owner);
  owner(numbers({2, 5}));
  user.hybridize();
  CHECK(user(numbers({2, 16})).shape() == Shape(2, 4));
  nn::HybridSequential around(user);  // names the user, not what the user has borrowed
  CHECK(user.name() == "tied0");
  CHECK(names_of(user.collect_params()) == Strings{"mlp_fc2_weight", "mlp_fc2_bias"});
}

TEST_CASE("block: what has no owner any more takes the names of the next one", "[gluon]") {
  Fc layer(4);
  { nn::HybridSequential gone(Fc(1), layer); }
  CHECK(layer.weight.name() == "fc1_weight");
  Tied user(layer);
  CHECK(layer.weight.name() == "inner_weight");
}

namespace {
struct Twice : gluon::HybridBlock<Twice> {
  Twice() : HybridBlock("twice") {
    child("a", Fc(1));
    CHECK_THROWS_WITH(child("a", Fc(1)), Contains("replace_child"));
    param("w", {1});
    CHECK_THROWS_WITH(param("w", {2}), Contains("has a parameter 'w' already"));
    CHECK_THROWS_AS(child("self", gluon::Block(*this)), ValueError);
  }
  auto hybrid_forward(auto, auto x) { return x; }
};
struct Clash : gluon::HybridBlock<Clash> {
  Fc fc = child("fc", Fc(5));
  gluon::Parameter w = param("fc_weight", {5}, {.init = init::One()});
  auto hybrid_forward(auto F, auto x) { return F.broadcast_add(fc(x), F(w)); }
};
}  // namespace

TEST_CASE("block: duplicate names and cycles are refused", "[gluon]") {
  Twice net;
  Clash clash = ready(Clash());
  clash(numbers({2, 5}));
  clash.hybridize();
  CHECK_THROWS_WITH(clash(numbers({2, 5})), Contains("two inputs or parameters named 'fc_weight'"));
}

TEST_CASE("block: test_hybrid_stale_cache: replacing a child deep inside is seen by the nets around it", "[gluon]") {
  Outer net = ready(Outer());
  NDArray x = numbers({2, 5});
  net.hybridize({.exact = true});
  CHECK(net(x).shape() == Shape(2, 4));
  net.mlp.replace_child("fc2", net.mlp.fc2, Fc(7));
  net.initialize();
  CHECK(net(x).shape() == Shape(2, 7));
  CHECK(net.mlp.fc2.weight.name() == "mlp_fc2_weight");
  NDArray y = net(x);
  net.hybridize(false);
  CHECK(same_bits(net(x), y));
  CHECK_THROWS_WITH(net.replace_child("nothing", net.mlp, Mlp()), Contains("no child 'nothing'"));
  nn::HybridSequential list(Fc(2)), around;
  around.add(list);
  CHECK_THROWS_WITH(list.replace(0, around), Contains("which it contains"));
  CHECK(names_of(list.collect_params()) == Strings{"hybridsequential0_fc0_weight", "hybridsequential0_fc0_bias"});
  CHECK(ready(list)(numbers({3, 5})).shape() == Shape(3, 2));
}

TEST_CASE("block: cast changes every parameter; traces follow", "[gluon]") {
  Outer net = ready(Outer());
  NDArray x = numbers({2, 5});
  net.hybridize();
  NDArray y = net(x);
  net.cast(DType::float64);
  NDArray z = net(x.astype(DType::float64));
  CHECK(z.dtype() == DType::float64);
  require_close(z, values(y));
  net.mlp.cast(DType::float32);
  CHECK_THROWS_AS(net(x), TypeError);  // scale is still float64
  net.cast(DType::float32);
  require_close(net(x), values(y));
}

TEST_CASE("block: cast to 16 bits leaves BatchNorm's parameters float32", "[gluon]") {
  nn::HybridSequential net(nn::Conv2D(3, {.kernel_size = 2}), nn::BatchNorm(), nn::Dense(2));
  ready(net);
  NDArray x = numbers({4, 2, 5, 5});
  NDArray y = autograd::record([&] { return net(x); });
  for (DType half : {DType::float16, DType::bfloat16}) {
    net.cast(half);
    for (const gluon::Parameter& p : net.collect_params()) {
      INFO(p.name());
      CHECK(p.dtype() == (p.name().starts_with("batchnorm") ? DType::float32 : half));
    }
    for (bool hybrid : {false, true}) {
      net.hybridize(hybrid);
      NDArray z = autograd::record([&] { return net(x.astype(half)); });
      z.backward();
      CHECK(z.dtype() == half);
      require_close(z, values(y), 0.1, 0.1);
      CHECK(net.collect_params().get("batchnorm0_gamma").grad().dtype() == DType::float32);
    }
  }
  net.cast(DType::float64);
  CHECK(net.collect_params().get("batchnorm0_running_mean").dtype() == DType::float64);
}

TEST_CASE("block: cast to integers is refused where something learns, and changes nothing", "[gluon]") {
  Outer net = ready(Outer());
  NDArray x = numbers({2, 5});
  NDArray y = net(x);
  CHECK_THROWS_WITH(net.cast(DType::int32), Contains("scale has a gradient") && Contains("got int32"));
  CHECK(same_bits(net(x), y));
  net.mlp.collect_params().set_grad_req(GradReq::null);
  CHECK_THROWS_AS(net.cast(DType::int32), TypeError);
  CHECK(same_bits(net(x), y));
  net.collect_params().set_grad_req(GradReq::null);
  net.cast(DType::int32);
  CHECK(net.scale.data().dtype() == DType::int32);
}

TEST_CASE("block: parameter files have dotted names", "[gluon]") {
  ScratchFolder folder;
  nn::HybridSequential net(nn::Dense(8, {.activation = "relu"}), nn::Dense(3));
  ready(net);
  NDArray x = numbers({2, 5});
  NDArray y = net(x);
  net.save_parameters(folder / "net.params");
  Strings names;
  for (const auto& [name, array] : nd_file::load(folder / "net.params")) names.push_back(name);
  CHECK(names == Strings{"0.weight", "0.bias", "1.weight", "1.bias"});
  nn::HybridSequential other(nn::Dense(8, {.activation = "relu"}), nn::Dense(3));
  other.load_parameters(folder / "net.params");  // not initialized: the file gives the shapes
  CHECK(same_bits(other(x), y));
  other.collect_params().save(folder / "full.params");
  nn::HybridSequential third(nn::Dense(8, {.activation = "relu"}), nn::Dense(3));
  third.load_parameters(folder / "full.params");  // full names
  CHECK(same_bits(third(x), y));
}

TEST_CASE("block: a parameter file that does not fit changes nothing", "[gluon]") {
  ScratchFolder folder;
  Outer net = ready(Outer());
  NDArray x = numbers({2, 5});
  NDArray y = net(x);
  auto arrays = [&] {
    NamedArrays all;
    for (const char* n : {"scale", "mlp.fc1.weight", "mlp.fc1.bias", "mlp.fc2.weight", "mlp.fc2.bias"}) {
      std::string full = n;
      for (char& c : full) c = c == '.' ? '_' : c;
      all.emplace_back(n, nd.zeros(net.collect_params().get(full).shape()));
    }
    return all;
  };
  NamedArrays missing = arrays(), extra = arrays();
  missing.pop_back();
  nd_file::save(folder / "missing", missing);
  CHECK_THROWS_WITH(net.load_parameters(folder / "missing"),
                    Contains("'mlp.fc2.bias' is missing") && Contains("holds 'scale', 'mlp.fc1.weight'"));
  CHECK(same_bits(net(x), y));
  extra.emplace_back("other", nd.ones({1}));
  nd_file::save(folder / "extra", extra);
  CHECK_THROWS_WITH(net.load_parameters(folder / "extra"), Contains("holds 'other'") && Contains("'mlp.fc2.bias'"));
  CHECK(same_bits(net(x), y));
  NamedArrays wide = arrays();
  wide.back().second = nd.zeros({5});
  nd_file::save(folder / "wide", wide);
  CHECK_THROWS_WITH(net.load_parameters(folder / "wide"),
                    Contains("mlp_fc2_bias has shape (4,)") && Contains("got (5,) in " + (folder / "wide").string()));
  CHECK(same_bits(net(x), y));
  nd_file::save(folder / "foreign", {{"body.weight", nd.zeros({1})}});
  CHECK_THROWS_WITH(net.load_parameters(folder / "foreign"), Contains("'body.weight'") && Contains("'mlp.fc1.weight'"));
  net.load_parameters(folder / "missing", true);
  net.load_parameters(folder / "extra", false, true);
  CHECK(values(net(x)) == std::vector<double>(8, 0));
}

TEST_CASE("block: a shared parameter may stand in a file under any of its paths", "[gluon]") {
  ScratchFolder folder;
  Fc fc(5);
  nn::HybridSequential net(fc, fc);
  ready(net);
  NDArray x = numbers({2, 5});
  NDArray y = net(x);
  net.save_parameters(folder / "both");
  nd_file::save(folder / "last", {{"1.weight", fc.weight.data()}, {"1.bias", fc.bias.data()}});
  for (const char* file : {"both", "last"}) {
    Fc own(5);
    nn::HybridSequential other(own, own);
    other.load_parameters(folder / file);
    CHECK(same_bits(other(x), y));
  }
}

TEST_CASE("block: to_string shows the tree", "[gluon]") {
  Outer net;  // its own parameters stand beside its children
  CHECK(to_string(net) ==
        "outer(scale: (1,)\n  (mlp): mlp(\n    (fc1): fc(weight: (16, 0), bias: (16,))\n    (fc2): fc(weight: (4, 0), "
        "bias: (4,))\n  )\n)");
  CHECK(fmt::format("{}", net) == to_string(net));
  CHECK(to_string(nn::Dense(2, {.activation = "relu"})) == "dense(weight: (2, 0), bias: (2,)\n  (relu): relu()\n)");
}

TEST_CASE("block: files of another dtype", "[gluon]") {
  ScratchFolder folder;
  Mlp net;
  net.initialize(init::Uniform(0.5));
  const NDArray x = nd.ones({2, 4});
  const std::vector<double> expected = values(net(x));
  net.save_parameters(folder / "float32.params");
  Mlp narrow;
  narrow.initialize();
  narrow(x);
  narrow.cast(DType::float16);
  narrow.hybridize();
  const NDArray narrow_x = nd.cast(x, DType::float16);
  narrow(narrow_x);
  const std::vector<double> before = values(narrow(narrow_x));
  CHECK_THROWS_AS(narrow.load_parameters(folder / "float32.params"), TypeError);
  require_close(narrow(narrow_x), before);
  narrow.load_parameters(folder / "float32.params", {.cast_dtype = true});
  CHECK(narrow(narrow_x).dtype() == DType::float16);
  require_close(narrow(narrow_x), expected, 5e-3, 5e-3);
  narrow.load_parameters(folder / "float32.params", {.cast_dtype = true, .dtype_source = gluon::DTypeSource::saved});
  CHECK(narrow(x).dtype() == DType::float32);
  require_close(narrow(x), expected);
  narrow.cast(DType::float16);
  narrow.collect_params().load(folder / "float32.params",
                               gluon::LoadOptions{.allow_missing = true, .ignore_extra = true, .cast_dtype = true});
  nd_file::save(folder / "whole.params", {{"fc1_weight", nd.ones({16, 4}, {.dtype = DType::int32})}});
  const auto saved =
      gluon::LoadOptions{.allow_missing = true, .cast_dtype = true, .dtype_source = gluon::DTypeSource::saved};
  Mlp whole;
  whole.initialize();
  CHECK_THROWS_AS(whole.collect_params().load(folder / "whole.params", saved), TypeError);  // a gradient of integers
}

TEST_CASE("block: a shared parameter is saved once on request", "[gluon]") {
  struct Tied : gluon::Block {
    Fc one = child("one", Fc(3)), two = child("two", one);
    Tied() : Block("tied") {}
  } net;
  net.initialize();
  net.one(nd.ones({2, 4}));
  ScratchFolder folder;
  net.save_parameters(folder / "all.params");
  net.save_parameters(folder / "once.params", true);
  const size_t all = nd_file::load(folder / "all.params").size(), once = nd_file::load(folder / "once.params").size();
  CHECK(all == 2 * once);
  const std::vector<double> expected = values(net.one(nd.ones({2, 4})));
  for (const char* file : {"all.params", "once.params"}) {
    for (gluon::Parameter p : net.collect_params()) p.set_data(nd.zeros_like(p.data()));
    net.load_parameters(folder / file);
    require_close(net.two(nd.ones({2, 4})), expected);
  }
}

}  // namespace block_test
