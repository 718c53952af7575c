// Nets that predict by Winograd's algorithm, beside float64.
#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/gluon/block_node.h"
#include "kaon/graph/cached_graph.h"
#include "kaon/kaon.h"

using namespace kaon;
using Catch::Matchers::Contains;

TEST_CASE("winograd: the results of ResNet-18 stay within the bound that the option states", "[gluon]") {
  for (const auto& [batch, autotune] : {std::pair(1, false), {4, false}, {1, true}, {4, true}}) {
    gluon::model_zoo::vision::ResNetV1 net = gluon::model_zoo::vision::resnet18_v1();
    net.initialize(init::Xavier());
    const NDArray x = nd.random_normal({batch, 3, 96, 96});
    net.hybridize({.static_alloc = true, .static_shape = true, .winograd = true, .autotune = autotune});
    const auto got = net(x).asvector<double>();
    const auto& trace = net.node()->traces.back();
    INFO(trace.graph->plan()->implementations());
    net.hybridize(false);
    net.cast(DType::float64);
    const auto expected = net(x.astype(DType::float64)).asvector<double>();
    double largest = 0, error = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      error = std::max(error, std::abs(got[i] - expected[i]));
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
