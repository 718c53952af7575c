// A step that gets no memory leaves the parameters as they were.
#include <catch2/catch.hpp>
#include <new>
#include <optional>
#include <vector>

#include "kaon/engine/storage.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/training_step.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

using namespace kaon;
using namespace kaon::test;

namespace {

enum class Way { imperative, hybridized, exact, step };

struct Training {
  nn::HybridSequential net{nn::Conv2D(4, {.kernel_size = 3, .padding = 1, .in_channels = 3}),
                           nn::BatchNorm({.in_channels = 4}), nn::Activation("relu"), nn::GlobalAvgPool2D(),
                           nn::Dense(4, {.in_units = 4})};
  gluon::loss::SoftmaxCELoss loss;
  NDArray x = numbers({4, 3, 8, 8}), y = nd.arange(4);
  std::optional<gluon::Trainer> trainer;
  std::optional<gluon::TrainingStep> fused;
  Way way;

  explicit Training(Way w) : way(w) {
    net.initialize(init::One());
    uint32_t seed = 3;
    for (auto p : net.collect_params()) {
      if (p.grad_req() != GradReq::null) p.set_data(numbers(p.shape(), ++seed) * 0.3f);
    }
    trainer.emplace(net.collect_params(), optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9}));
    if (way == Way::hybridized || way == Way::exact) net.hybridize({.static_alloc = true, .exact = way == Way::exact});
    if (way == Way::step) fused.emplace(net, loss, *trainer);
    nd.waitall();
  }
  float step() {
    NDArray l;
    if (fused) {
      l = (*fused)(x, y);
    } else {
      autograd::record([&] { l = loss(net(x), y); });
      l.backward();
      trainer->step(4);
    }
    const float value = l.mean().asscalar<float>();
    nd.waitall();
    return value;
  }
  // running: the running statistics as well
  std::vector<float> parameters(bool running) {
    std::vector<float> all;
    for (auto p : net.collect_params()) {
      if (!running && p.grad_req() == GradReq::null) continue;
      const auto values = p.data().asvector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

const char* name_of(Way way) {
  constexpr const char* names[] = {"imperative", "hybridized", "hybridized, exact", "TrainingStep"};
  return names[int(way)];
}

template <class F>
bool lacks_memory(F&& f) {
  try {
    f();
    return false;
  } catch (const MemoryError&) {
    return true;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const AggregateError&) {
    return true;
  }
}
void forget_failures() {
  for (int i = 0; i < 2; ++i) lacks_memory([] { nd.waitall(); });
}

}  // namespace

TEST_CASE("faults: a step without room in the storage leaves the parameters as they were", "[faults]") {
  for (int threads : {0, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    for (Way way : {Way::imperative, Way::hybridized, Way::exact, Way::step}) {
      INFO(name_of(way) << ", " << threads << " threads");
      Training reference(way), training(way);
      const float first = reference.step(), second = reference.step();
      int failed = 0;
      bool is_done = false;
      for (size_t room = 0; !is_done; room += room < 8192 ? 512 : room / 8) {
        INFO("room for " << room << " bytes");
        const std::vector<float> before = training.parameters(way == Way::step);
        Storage::cpu().set_limit(Storage::cpu().stats().live + room + 1);
        float value = 0;
        is_done = !lacks_memory([&] { value = training.step(); });
        forget_failures();
        Storage::cpu().set_limit(0);
        if (is_done) {
          if (way == Way::step) CHECK(value == first);
          break;
        }
        ++failed;
        REQUIRE(training.parameters(way == Way::step) == before);
      }
      CHECK(failed > 1);
      lacks_memory([&] { training.trainer->step(4, true); });  // tells of the failed one
      forget_failures();
      if (way == Way::step) CHECK(training.step() == second);
    }
  }
}
