// Parameters on several devices: cpu(0) and cpu(1) are two.
#include "kaon/gluon/util/array_lists.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace devices_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

const std::vector<Device> two{cpu(0), cpu(1)};

// Makes an array where it runs, and draws numbers there.
struct Shifted : gluon::HybridBlock<Shifted> {
  nn::Dense dense = child("dense", nn::Dense(3, {.activation = "tanh"}));
  nn::BatchNorm norm = child("norm", nn::BatchNorm());
  gluon::Parameter shift = constant("shift", nd.array({1, 2, 3}));
  auto hybrid_forward(auto F, auto x) {
    return norm(dense(x)) + F(shift).reshape({1, 3}) + F.arange(3).reshape({1, 3});
  }
};

std::vector<double> on(const gluon::Parameter& p, Device device) { return values(p.data(device)); }

}  // namespace

TEST_CASE("devices: the values of a parameter are the same on all of its devices", "[gluon]") {
  gluon::Parameter p("p", {2, 0});
  CHECK(p.list_ctx().empty());
  p.initialize(init::Xavier(), two);
  CHECK(p.list_ctx() == two);
  CHECK_THROWS_WITH(p.list_data(), Contains("the first forward completes it"));
  p.set_shape({2, 3});
  p.finish_deferred();
  CHECK(p.list_ctx() == two);
  CHECK(p.data(cpu(1)).device() == cpu(1));
  CHECK(on(p, cpu(0)) == on(p, cpu(1)));
  CHECK(p.list_grad()[1].device() == cpu(1));
  CHECK(values(p.grad(cpu(1))) == std::vector<double>(6, 0));
  p.set_data(nd.ones({2, 3}));
  CHECK(on(p, cpu(1)) == std::vector<double>(6, 1));
  CHECK(p.data().device() == cpu(0));
  {
    DeviceScope scope(cpu(1));
    CHECK(p.data().device() == cpu(1));
    CHECK(nd.zeros({2}).device() == cpu(1));
  }
  {
    DeviceScope scope(cpu(2));
    CHECK_THROWS_WITH(p.data(), Contains("p has no values on cpu(2), but on cpu(0), cpu(1)"));
    CHECK_THROWS_AS(p.data(), DeviceError);
  }
  p.list_data()[1].assign(3);
  CHECK(on(p, cpu(0)) == std::vector<double>(6, 1));
  CHECK(values(p.reduced()) == std::vector<double>(6, 2));
  p.cast(DType::float64);
  CHECK(p.data(cpu(1)).dtype() == DType::float64);
  CHECK(p.grad(cpu(1)).dtype() == DType::float64);
  p.set_grad_req(GradReq::null);
  CHECK_THROWS_AS(p.list_grad(), StateError);
  p.list_data()[0].assign(1), p.list_data()[1].assign(1);
  p.reset_ctx(cpu(3));
  CHECK(p.list_ctx() == std::vector{cpu(3)});
  CHECK(p.data().device() == cpu(3));  // wherever the program is
  p.reset_ctx({cpu(1), cpu(0)});
  CHECK(on(p, cpu(0)) == std::vector<double>(6, 1));
  CHECK_THROWS_AS(p.reset_ctx({cpu(1), cpu(1)}), ValueError);
  CHECK_THROWS_AS(p.reset_ctx(std::vector<Device>()), ValueError);
  CHECK_THROWS_AS(p.initialize(init::Zero(), {cpu(1), cpu(1)}, true), ValueError);
  CHECK(p.list_ctx() == std::vector{cpu(1), cpu(0)});
}

TEST_CASE("devices: a net computes where its input is, in both modes", "[gluon]") {
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    random::seed(3);
    Shifted net;
    net.initialize(init::Xavier(), two);
    const NDArray x = nd.random_normal({4, 5});
    const NDArray expected = net(x);
    for (bool hybrid : {false, true, true}) {
      net.hybridize(hybrid, {.static_alloc = hybrid, .exact = true});
      for (Device device : {cpu(1), cpu(0), cpu(1)}) {
        const NDArray there = x.as_in_context(device), y = net(there);
        CHECK(y.device() == device);
        CHECK(values(y) == values(expected));
        // gradients and running statistics are those of the device
        net.collect_params().zero_grad();
        const std::vector<double> statistics = on(net.norm.running_mean, device == cpu(0) ? cpu(1) : cpu(0));
        autograd::record([&] { return net(there); }).backward();
        CHECK(on(net.norm.running_mean, device == cpu(0) ? cpu(1) : cpu(0)) == statistics);
        for (Device d : two) {
          const bool is_zero = nd.norm(net.dense.weight.grad(d)).asscalar<float>() == 0;
          CHECK(is_zero == (d != device));
        }
        net.norm.running_mean.set_data(nd.zeros({3}));
        net.norm.running_var.set_data(nd.ones({3}));
      }
    }
    CHECK_THROWS_WITH(net(x.as_in_context(cpu(2))), Contains("has no values on cpu(2)"));
  }
}

TEST_CASE("devices: files have the mean over the devices", "[gluon]") {
  Shifted net, same;
  net.initialize(init::Xavier(), two);
  for (size_t i = 0; i < 2; ++i) net(nd.ones({1, 5}).as_in_context(two[i]));
  net.norm.running_mean.list_data()[1].assign(4);
  const ScratchFolder folder;
  net.save_parameters(folder / "net.params");
  same.initialize(init::Zero(), two);
  same.load_parameters(folder / "net.params");
  CHECK(on(same.norm.running_mean, cpu(1)) == std::vector<double>(3, 2));
  CHECK(on(same.dense.weight, cpu(1)) == on(net.dense.weight, cpu(0)));
  net.hybridize();
  net(nd.ones({1, 5}));
  net.export_model((folder / "net").string());
  for (const auto& [name, array] : nd_file::load(folder / "net-0000.params")) {
    if (name == "aux:norm_running_mean") CHECK(values(array) == std::vector<double>(3, 2));
  }
}

}  // namespace devices_test
