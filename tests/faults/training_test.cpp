// A step without room in the storage leaves the parameters as they were.
#include <catch2/catch.hpp>
#include <vector>

#include "kaon/engine/storage.h"
#include "training.h"

namespace training_test {

using namespace kaon;
using namespace kaon::test;

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

}  // namespace training_test
