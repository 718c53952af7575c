// Operators that are made of others, in blocks.
#include "kaon/graph/control_flow.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace composite_test {

using namespace kaon;
using namespace kaon::test;

namespace {

struct Sample : gluon::HybridBlock<Sample> {
  auto hybrid_forward(auto F, auto x) {
    auto row = [&](auto image, auto sum) {
      auto large = F.BilinearResize2D(image, {.height = 5, .width = 4});
      return std::pair(F.tanh(large), sum + F.AdaptiveAvgPooling2D(large, {2, 3}));
    };
    auto [all, sum] = contrib::foreach (row, x, F.zeros({2, 3, 2, 3}));
    return F.sum(all) + F.sum(sum * sum);
  }
};

}  // namespace

TEST_CASE("composite: inside a loop, hybridized and exported, as imperatively, gradients included") {
  Sample net;
  NDArray x = numbers({3, 2, 3, 3, 7});
  const auto run = [&] {
    x.attach_grad();
    NDArray y = autograd::record([&] { return net(x); });
    y.backward();
    return std::pair(y.asvector<float>(), x.grad().asvector<float>());
  };
  const auto imperative = run();
  net.hybridize({.exact = true});
  CHECK(run() == imperative);
  NDArray second = autograd::record([&] {
    NDArray z = nd.BilinearResize2D(x[0], {.height = 5, .width = 4});
    return autograd::grad(z * z * z, x[0], true);
  });
  CHECK(second.shape() == Shape(2, 3, 3, 7));
}

}  // namespace composite_test
