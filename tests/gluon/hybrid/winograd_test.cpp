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

TEST_CASE("winograd and autotune: a net refuses them together with exact", "[gluon]") {
  gluon::nn::Dense net(3);
  CHECK_THROWS_AS(net.hybridize({.exact = true, .winograd = true}), ValueError);
  CHECK_THROWS_WITH(net.hybridize({.exact = true, .winograd = true}),
                    Contains("[hybridize] winograd and exact exclude each other"));
  CHECK_THROWS_WITH(net.hybridize({.exact = true, .autotune = true}),
                    Contains("[hybridize] autotune and exact exclude each other"));
}

}  // namespace winograd_test
