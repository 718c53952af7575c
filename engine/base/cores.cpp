#include "kaon/engine/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace kaon::engine {

int available_cores() noexcept {
  // Fails with more than CPU_SETSIZE (1024) cores; hardware_concurrency() does not look at the mask.
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) return std::max(1, CPU_COUNT(&mask));
  return std::max(1, int(std::thread::hardware_concurrency()));
}

}  // namespace kaon::engine
