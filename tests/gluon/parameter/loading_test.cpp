// load_parameters() while other threads call the net.
#include <atomic>
#include <set>
#include <thread>

#include "kaon/gluon/nn/nn.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

namespace loading_test {

using namespace kaon;
using namespace kaon::test;
namespace nn = kaon::gluon::nn;

TEST_CASE("load_parameters: hybridized calls of other threads see all old or all new values", "[gluon]") {
  const ScratchFolder folder;
  const auto made = [](double value) {
    nn::HybridSequential net(nn::Dense(32, {.in_units = 16}), nn::BatchNorm({.in_channels = 32}),
                             nn::Dense(8, {.in_units = 32}), nn::Dense(1, {.in_units = 8}));
    net.initialize(init::Constant(value));
    return net;
  };
  const NDArray x = nd.ones({2, 16});
  std::set<double> allowed;
  for (double value : {0.25, -0.5}) {
    nn::HybridSequential net = made(value);
    net.hybridize();
    allowed.insert(values(net(x))[0]);
    net.save_parameters(folder / (value > 0 ? "a" : "b"));
  }
  REQUIRE(allowed.size() == 2);
  for (int threads : {1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    nn::HybridSequential net = made(0.25);
    net.hybridize({.static_alloc = true, .static_shape = true});
    const NDArray data = nd.ones({2, 16});
    net(data).wait_to_read();
    std::atomic<int> wrong = 0, calls = 0;
    std::atomic<bool> ends = false;
    std::vector<std::thread> clients;
    for (int i = 0; i < 2; ++i) {
      clients.emplace_back([&] {
        EngineScope own(engine);
        while (!ends) {
          if (!allowed.contains(values(net(data))[0])) ++wrong;
          ++calls;
        }
      });
    }
    for (int i = 0; i < 40 || calls < 40; ++i) net.load_parameters(folder / (i % 2 == 0 ? "b" : "a"));
    ends = true;
    for (std::thread& t : clients) t.join();
    CHECK(wrong == 0);
    engine.wait_all();
  }
}

}  // namespace loading_test
