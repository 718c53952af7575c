// Nets that predict by Winograd's algorithm, beside float64.
#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/gluon/internal/block_node.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/kaon.h"

namespace winograd_test {

using namespace kaon;
using namespace kaon::graph;
using Catch::Matchers::Contains;

TEST_CASE("winograd: the results of ResNet-18 stay within the bound that the option states",
          "[arithmetic][unsanitized]") {
  gluon::model_zoo::vision::ResNetV1 net = gluon::model_zoo::vision::resnet18_v1();
  net.initialize(init::Xavier());
  const NDArray images = nd.random_normal({4, 3, 96, 96});
  struct Run {
    bool autotune;  // may find others faster
    std::vector<double> results;
    std::string implementations;
  };
  std::vector<Run> runs;
  for (bool autotune : {false, true}) {
    net.hybridize({.static_alloc = true, .static_shape = true, .winograd = true, .autotune = autotune});
    for (const NDArray& x : {images.slice(0, 1), images}) {
      auto results = net(x).asvector<double>();
      runs.push_back({autotune, std::move(results), net.node()->traces.back().graph->report()->implementations()});
    }
  }
  net.hybridize(false);
  net.cast(DType::float64);
  const auto expected = net(images.astype(DType::float64)).asvector<double>();
  for (const auto& [autotune, results, implementations] : runs) {
    INFO(implementations);
    CHECK((autotune || implementations.find("winograd") != implementations.npos));
    double largest = 0, error = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      error = std::max(error, std::abs(results[i] - expected[i]));
    }
    CHECK(error <= 1e-5 * largest);
  }
}

TEST_CASE("winograd: training steps follow those of direct convolutions", "[gluon]") {
  namespace nn = gluon::nn;
  const auto make = [] {
    random::seed(7);
    nn::HybridSequential net(nn::Conv2D(32, {.kernel_size = 3, .padding = 1}), nn::BatchNorm(), nn::Activation("relu"),
                             nn::Conv2D(64, {.kernel_size = 3, .padding = 1, .activation = "relu"}),
                             nn::Conv2D(32, {.kernel_size = 3}), nn::Conv2D(20, {.kernel_size = 5, .padding = 2}),
                             nn::GlobalAvgPool2D(), nn::Dense(5));
    net.initialize(init::Xavier());
    return net;
  };
  const NDArray x = nd.random_normal({6, 3, 15, 13}), y = nd.array({0, 1, 2, 3, 4, 0});
  for (bool one_submission : {false, true}) {
    std::vector<std::vector<NDArray>> results;
    for (bool winograd : {false, true}) {
      nn::HybridSequential net = make();
      const HybridizeOptions options{.static_alloc = true, .static_shape = true, .winograd = winograd};
      net(x).wait_to_read();
      net.hybridize(options);
      gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.05, .momentum = 0.9}));
      const gluon::loss::SoftmaxCrossEntropyLoss loss;
      gluon::TrainingStep step(net, loss, trainer, options);
      for (int i = 0; i < 5; ++i) {
        if (one_submission) {
          step(x, y);
        } else {
          const NDArray l = autograd::record([&] { return loss(net(x), y); });
          l.backward();
          trainer.step(6);
        }
      }
      nd.waitall();
      const std::string kernels = one_submission ? step.plan()->implementations()
                                                 : net.node()->traces.back().graph->report()->implementations();
      size_t by_name = 0;
      for (size_t at = kernels.find("wino"); at != kernels.npos; at = kernels.find("wino", at + 1)) ++by_name;
      INFO(kernels);
      CHECK(by_name == (winograd ? 9 : 0));  // three convolutions, two gradients of each
      std::vector<NDArray>& all = results.emplace_back();
      for (const gluon::Parameter& p : net.collect_params()) all.push_back(p.data());
    }
    for (size_t k = 0; k < results[0].size(); ++k) {
      CHECK(nd.allclose(results[1][k], results[0][k], {.rtol = 1e-3, .atol = 1e-4}).asscalar<bool>());
    }
  }
}

TEST_CASE("winograd and autotune: a net refuses them together with exact", "[gluon]") {
  gluon::nn::Dense net(3);
  CHECK_THROWS_AS(net.hybridize({.exact = true, .winograd = true}), ValueError);
  CHECK_THROWS_WITH(net.hybridize({.exact = true, .winograd = true}),
                    Contains("[hybridize] winograd and exact exclude each other"));
  CHECK_THROWS_WITH(net.hybridize({.exact = true, .autotune = true}),
                    Contains("[hybridize] autotune and exact exclude each other"));
}

}  // namespace winograd_test
