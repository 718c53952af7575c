// Which of oneDNN's implementations run: never a reference one, which is a hundred times slower without a word.
#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <string>

#include "kaon/examples/networks.h"
#include "kaon/gluon/internal/block_node.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/kaon.h"
#include "kaon/ops/kernels/onednn.h"
#include "kaon/tests/support/files.h"

namespace implementation_test {

using namespace kaon;
using namespace kaon::graph;

namespace {

template <class Net>
void train_step(const Net& net, const Shape& images) {
  NDArray x = nd.random_normal(images), label = nd.zeros({images[0]});
  x.attach_grad();
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  NDArray loss = autograd::record([&] { return loss_fn(net(x), label); });
  loss.backward();
  net(x).wait_to_read();
}

}  // namespace

namespace {

// The dumps of the plans that the net has made say of each convolution what it runs on, and that is no reference.
void check_dumps(const gluon::Block& net, size_t convolutions, const std::string& name) {
  INFO(name);
  size_t seen = 0;
  for (const auto& trace : net.node()->traces) {
    std::istringstream lines(trace.graph->report()->implementations());
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(line.find(": ref") == line.npos);
      CHECK(line.find(": simple") == line.npos);
      if (line.find("Convolution") == line.npos) continue;
      CHECK(line.find(": own") == line.npos);
      CHECK(line.find("not run yet") == line.npos);
      CHECK((line.find(" nhwc") != line.npos || line.find(" nchw") != line.npos || line.find(" nChw16c") != line.npos));
      ++seen;
    }
  }
  CHECK(seen == convolutions);
}

// A training step and then a prediction, of which each convolution has three parts and one; the first one's data has no
// gradient.
template <class Net>
void check_dumps_of(Net net, const Shape& images, size_t convolutions, const std::string& name) {
  net.initialize(init::Xavier());
  net.hybridize({.static_alloc = true, .static_shape = true});
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  const NDArray x = nd.random_normal(images), label = nd.zeros({images[0]});
  autograd::record([&] { return loss_fn(net(x), label); }).backward();
  net(x).wait_to_read();
  nd.waitall();
  check_dumps(net, 4 * convolutions - 1, name);
}

}  // namespace

TEST_CASE("implementations: the dumps of the models' plans name a library kernel for each convolution",
          "[gluon][unsanitized]") {
  for (int64_t batch : {1, 8}) {
    check_dumps_of(examples::LeNet(), {batch, 1, 28, 28}, 2, "LeNet");
    check_dumps_of(gluon::model_zoo::vision::resnet18_v1(), {batch, 3, 64, 64}, 20, "ResNet-18");
  }
  check_dumps_of(gluon::model_zoo::vision::resnet50_v1(), {1, 3, 64, 64}, 53, "ResNet-50");
}

TEST_CASE("implementations: no reference one over the models, forwards and backwards", "[gluon][unsanitized]") {
  examples::LeNet net;
  net.initialize(init::Xavier());
  for (bool hybridized : {false, true}) {
    if (hybridized) net.hybridize({.static_alloc = true, .static_shape = true});
    for (int64_t batch : {1, 7, 32, 64}) train_step(net, {batch, 1, 28, 28});
  }
  for (int num_layers : {18, 50}) {
    for (bool thumbnail : {false, true}) {
      gluon::model_zoo::vision::ResNetV1 resnet(num_layers, {.classes = 10, .thumbnail = thumbnail});
      resnet.initialize(init::Xavier());
      const int64_t size = thumbnail ? 32 : 64;
      for (bool hybridized : {false, true}) {
        if (hybridized) resnet.hybridize({.static_alloc = true, .static_shape = true});
        for (int64_t batch : {1, 3}) train_step(resnet, {batch, 3, size, size});
      }
    }
  }
  const std::filesystem::path fixtures = test::fixtures_dir();
  for (auto [name, epoch] : {std::pair("LeNet", 1), std::pair("cifar_resnet20_v1", 0)}) {
    const auto symbol = fixtures / (std::string(name) + "-symbol.json");
    if (!std::filesystem::exists(symbol)) continue;  // golden_test skips visibly for the same reason
    auto model = gluon::SymbolBlock::imports(symbol, {"data"}, fixtures / fmt::format("{}-{:04}.params", name, epoch));
    const Shape image = name == std::string("LeNet") ? Shape(2, 1, 28, 28) : Shape(2, 3, 32, 32);
    for (const NDArray& y : model.forward({nd.random_normal(image)})) y.wait_to_read();
  }
  nd.waitall();

  std::set<std::string> uses;
  for (const auto& [use, implementation] : onednn::made_primitives()) {
    if (use == "reorder") continue;  // oneDNN's plain copies bear that name as well
    INFO(use << " runs " << implementation);
    CHECK_FALSE(implementation.starts_with("ref"));
    CHECK_FALSE(implementation.starts_with("simple"));
    uses.insert(use);
  }
  CHECK(uses.size() >= 4);  // the models have come by here at all
}

}  // namespace implementation_test
