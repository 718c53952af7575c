// A step that gets no memory leaves the parameters as they were.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "allocations.h"
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

namespace {

// Each allocation of the `number`th step fails in turn, in a training of its own.
void fail_each(Way way, int number, Lack lack, int most) {
  const auto attempt = [&](Training& t, long n) {
    FailingAllocations failing(n, lack);
    try {
      t.step();
      return false;
    } catch (...) {
      failing.stop();
      return lacks_memory([] { throw; });
    }
  };
  std::vector<float> expected;  // the losses
  std::vector<float> stepped;   // the parameters after step `number`
  {
    Training t(way);
    for (int i = 0; i < number + 2; ++i) {
      expected.push_back(t.step());
      if (i + 1 == number) stepped = t.parameters(way == Way::step);
    }
  }
  const auto begun = [&] {
    auto t = std::make_unique<Training>(way);
    for (int i = 0; i + 1 < number; ++i) REQUIRE(t->step() == expected[size_t(i)]);
    return t;
  };
  long total = 0;
  for (long step = 1 << 14; step > 0; step /= 2) {
    const auto t = begun();
    attempt(*t, total + step);
    if (FailingAllocations::has_failed()) total += step;
    forget_failures();
  }
  const long stride = most ? std::max<long>(1, total / most) : 1;
  for (long n = 1; n <= total; n += stride) {
    INFO(name_of(way) << ", step " << number << ", allocation " << n << " of " << total);
    const auto t = begun();
    const bool running = way == Way::step;  // imperative forwards that went well have moved running statistics
    const std::vector<float> before = t->parameters(running);
    attempt(*t, n);
    forget_failures();
    const auto is_done = [&] {
      const std::vector<float> now = t->parameters(running);
      if (now == before) return false;
      REQUIRE(now == stepped);
      return true;
    };
    bool done = is_done();
    if (!done) {
      // Gradients that have failed are not used; those that backward() has made are. Without them there is no step.
      try {
        lacks_memory([&] { t->trainer->step(4); });
      } catch (const StateError&) {
      }
      forget_failures();
      done = is_done();
    }
    if (!done) REQUIRE(t->step() == expected[size_t(number) - 1]);
    REQUIRE(t->step() == expected[size_t(number)]);
  }
}

}  // namespace

TEST_CASE("faults: whichever allocation of a step fails, it has changed all parameters or none", "[faults]") {
  Engine engine({.threads = 0});
  EngineScope scope(engine);
  for (Way way : {Way::imperative, Way::hybridized, Way::step}) {
    for (int number : {1, 2}) {
      for (Lack lack : {Lack::one, Lack::from_then_on}) fail_each(way, number, lack, 25);
    }
  }
}

TEST_CASE("faults: each allocation of a step fails once", "[faults][slow]") {
  for (int threads : {0, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    for (Way way : {Way::imperative, Way::hybridized, Way::exact, Way::step}) {
      for (int number : {1, 2}) {
        for (Lack lack : {Lack::one, Lack::from_then_on}) fail_each(way, number, lack, 0);
      }
    }
  }
}
