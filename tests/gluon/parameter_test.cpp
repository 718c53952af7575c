#include "kaon/gluon/parameter.h"

#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/gluon/hybrid_support.h"
#include "kaon/tests/support/files.h"

using namespace kaon;
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
  CHECK_THROWS_WITH(p.set_data(nd.ones({4, 3}, {.dtype = DType::float64})), Contains("net_fc1_weight has dtype float32"));
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
