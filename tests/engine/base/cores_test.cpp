// The number of cores that an engine takes for its own.
#include <sched.h>

#include <catch2/catch.hpp>

#include "kaon/engine/base/cores.h"
#include "kaon/engine/engine.h"

namespace cores_test {

using namespace kaon;

TEST_CASE("cores: an engine starts one thread for each core that its creator may run on") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CHECK(engine::available_cores() == CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++c) {
    if (CPU_ISSET(c, &before)) CPU_SET(c, &one);
  }
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(engine::available_cores() == 1);
  const Engine bound{EngineOptions{}};
  CHECK(bound.stats().threads == 1);
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  const Engine free{EngineOptions{}};
  CHECK(free.stats().threads == CPU_COUNT(&before));
}

}  // namespace cores_test
