#include "kaon/gluon/parameter.h"

#include "kaon/graph/ir/symbol_node.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace parameter_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;
using gluon::Parameter;

TEST_CASE("parameter: values, gradient, variable", "[gluon]") {
  Parameter p("weight", {10, 10});
  CHECK_FALSE(p.is_initialized());
  p.initialize(init::Xavier());
  CHECK(p.data().shape() == Shape(10, 10));
  CHECK(p.grad().shape() == Shape(10, 10));
  CHECK(p.var().name() == "weight");
  CHECK(p.var().shape() == Shape(10, 10));
  Parameter with_init("bias", {0, 3}, {.init = init::Zero()});
  const auto& text = with_init.var().entry().node->text_attrs;  // as model files have it
  CHECK(text.at("__shape__") == "(0, 3)");
  CHECK(text.at("__init__") == "zeros");
  CHECK_FALSE(p.var().entry().node->text_attrs.contains("__init__"));
  Parameter copy = p;
  CHECK(copy == p);
  copy.set_data(nd.ones({10, 10}));
  CHECK(values(p.data())[5] == 1);
}

TEST_CASE("parameter: what is wrong is said with its name", "[gluon]") {
  Parameter p("net_fc1_weight", {4, 0});
  CHECK_THROWS_WITH(p.data(), Contains("net_fc1_weight is not initialized: call net.initialize() first"));
  p.initialize();
  CHECK(p.is_deferred());
  CHECK_THROWS_WITH(p.data(), Contains("net_fc1_weight has shape (4, 0)") && Contains("first forward"));
  CHECK_THROWS_WITH(p.set_data(nd.ones({5, 3})), Contains("net_fc1_weight has shape (4, 0)") && Contains("got (5, 3)"));
  p.set_data(nd.ones({4, 3}));
  CHECK_FALSE(p.is_deferred());
  CHECK_THROWS_AS(p.set_data(nd.ones({4, 2})), ShapeError);
  CHECK_THROWS_WITH(p.set_data(nd.ones({4, 3}, {.dtype = DType::float64})),
                    Contains("net_fc1_weight has dtype float32"));
  p.set_grad_req(GradReq::null);
  CHECK_THROWS_WITH(p.grad(), Contains("net_fc1_weight has no gradient"));
  CHECK_THROWS_AS(Parameter().data(), StateError);
}

TEST_CASE("parameter: initialize keeps values unless forced", "[gluon]") {
  Parameter p("p", {3});
  p.initialize(init::One());
  p.initialize(init::Zero());
  CHECK(values(p.data()) == std::vector<double>(3, 1));
  p.initialize(init::Zero(), Device(), true);
  CHECK(values(p.data()) == std::vector<double>(3, 0));
  Parameter own("q", {3}, {.init = init::Constant(5)});
  own.initialize(init::Zero());
  CHECK(values(own.data()) == std::vector<double>(3, 5));
  CHECK_THROWS_AS(p.initialize(init::Xavier(), Device(), true), ValueError);  // for 2 dimensions
  CHECK(values(p.data()) == std::vector<double>(3, 0));
  Parameter none("r", {3});
  CHECK_THROWS_AS(none.initialize(init::Xavier()), ValueError);
  CHECK_THROWS_WITH(none.data(), Contains("r is not initialized"));
  none.initialize(init::One());
  CHECK(values(none.data()) == std::vector<double>(3, 1));
}

TEST_CASE("parameter: grad_req write, add, null", "[gluon]") {
  Parameter p("p", {2});
  p.initialize(init::One());
  auto step = [&] { autograd::record([&] { return p.data() * 3; }).backward(); };
  step();
  step();
  CHECK(values(p.grad()) == std::vector<double>(2, 3));
  p.set_grad_req(GradReq::add);
  step();
  step();
  CHECK(values(p.grad()) == std::vector<double>(2, 6));
  p.zero_grad();
  CHECK(values(p.grad()) == std::vector<double>(2, 0));
  Parameter statistic("s", {2}, {.differentiable = false});
  statistic.initialize(init::One());
  statistic.set_grad_req(GradReq::write);
  CHECK(statistic.grad_req() == GradReq::null);
  CHECK_FALSE(statistic.data().grad().defined());
}

TEST_CASE("parameter: cast keeps values and gradient", "[gluon]") {
  Parameter p("p", {2});
  p.initialize(init::Constant(0.5));
  p.cast(DType::float16);
  CHECK(p.data().dtype() == DType::float16);
  CHECK(p.grad().dtype() == DType::float16);
  CHECK(values(p.data()) == std::vector<double>(2, 0.5));
  CHECK(p.var().dtype() == DType::float16);
  CHECK_THROWS_AS(p.cast(DType::int8), TypeError);
  CHECK(p.data().dtype() == DType::float16);
  p.set_grad_req(GradReq::null);
  p.cast(DType::int8);
  CHECK(p.data().dtype() == DType::int8);
  Parameter indices("i", {2}, {.dtype = DType::int32, .grad_req = GradReq::null});
  indices.initialize(init::One());
  indices.set_grad_req(GradReq::null);
  CHECK(indices.data().dtype() == DType::int32);
  CHECK_THROWS_AS(indices.set_grad_req(GradReq::write), TypeError);
}

TEST_CASE("parameter: dictionaries are saved and loaded, with arg: and aux: too", "[gluon]") {
  ScratchFolder folder;
  gluon::ParameterDict dict;
  Parameter w0("net_w0", {2, 3}), w1("net_w1", {4});
  dict.add(w0);
  dict.add(w1);
  dict.add(w0);
  CHECK(dict.size() == 2);
  CHECK_THAT(dict.str(), Contains("Parameter net_w0 (shape=(2, 3), dtype=float32)"));
  dict.initialize(init::Uniform());
  NDArray a = w0.data().copy(), b = w1.data().copy();
  dict.save(folder / "dict");
  dict.save(folder / "stripped", "net_");
  dict.initialize(init::Zero(), Device(), true);
  dict.load(folder / "dict");
  CHECK(same_bits(w0.data(), a));
  CHECK(same_bits(w1.data(), b));
  CHECK(nd_file::load(folder / "stripped")[0].first == "w0");
  nd_file::save(folder / "module", {{"arg:net_w0", a * 2}, {"aux:net_w1", b * 2}});
  dict.load(folder / "module");
  CHECK(same_bits(w1.data(), b * 2));
  nd_file::save(folder / "half", {{"net_w0", a}});
  CHECK_THROWS_WITH(dict.load(folder / "half"), Contains("'net_w1' is missing"));
  CHECK(same_bits(w0.data(), a * 2));  // nothing has changed
  dict.load(folder / "half", true);
  CHECK(same_bits(w0.data(), a));
  nd_file::save(folder / "other", {{"net_w0", a}, {"net_w1", b}, {"net_w2", b}});
  CHECK_THROWS_WITH(dict.load(folder / "other"), Contains("'net_w2'"));
  dict.load(folder / "other", false, true);
}

TEST_CASE("parameter: dictionaries: a prefix put back, multipliers, printing", "[gluon]") {
  ScratchFolder folder;
  Parameter w("net_w", {2}), b("net_b", {2});
  gluon::ParameterDict dict;
  dict.add(w);
  dict.add(b);
  dict.initialize(init::One());
  dict.save(folder / "stripped", "net_");
  dict.initialize(init::Zero(), Device(), true);
  CHECK_THROWS_WITH(dict.load(folder / "stripped"), Contains("'w'") && Contains("'net_w', 'net_b'"));
  dict.load(folder / "stripped", false, false, "net_");
  CHECK(values(w.data()) == std::vector<double>(2, 1));
  dict.set_lr_mult(0.5);
  dict.set_wd_mult(0);
  CHECK(b.lr_mult() == 0.5);
  CHECK(w.wd_mult() == 0);
  CHECK(fmt::format("{}", dict) == dict.str());
}

TEST_CASE("parameter: dictionaries of two nets are put together; files refuse names that repeat", "[gluon]") {
  ScratchFolder folder;
  nn::Dense a(2), b(2);
  a.initialize(init::One());
  b.initialize(init::Zero());
  a(nd.ones({1, 3}));
  b(nd.ones({1, 3}));
  gluon::ParameterDict both = a.collect_params();
  both.update(b.collect_params());
  both.update(a.collect_params());
  CHECK(both.size() == 4);
  CHECK_THROWS_WITH(both.save(folder / "both"), Contains("two parameters are named 'weight'"));
  CHECK(folder.count() == 0);
  a.collect_params().save(folder / "a");
  CHECK_THROWS_WITH(both.load(folder / "a"), Contains("two parameters are named 'weight'"));
  CHECK(values(b.weight.data()) == std::vector<double>(6, 0));
}

TEST_CASE("parameter: what get() returns outlives the dictionary", "[gluon]") {
  nn::Dense net(2, {.in_units = 3});
  net.initialize();
  const std::string name = net.weight.name();
  static_assert(!std::is_reference_v<decltype(net.collect_params().get(""))>);
  static_assert(!std::is_reference_v<decltype(net.collect_params()[0])>);
  const Parameter& p = net.collect_params().get(name);
  CHECK(p == net.weight);
  CHECK(p.data().shape() == Shape(2, 3));
}

}  // namespace parameter_test
