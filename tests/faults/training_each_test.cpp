// Each allocation of a training step fails in turn.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "training.h"

namespace training_each_test {

using namespace kaon;
using namespace kaon::test;

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

}  // namespace training_each_test
