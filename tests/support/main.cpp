// The main function of every test program. Returns 0 passed, 1 failed, 4 skipped. With --schedule <seed>, meant for
// many cases in one process, the default engine and those of at_thread_counts run what is ready in any legal order, on
// one thread, as the seed says; a skipped case among them counts as passed.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "kaon/engine/engine.h"
#include "kaon/tests/support/schedule.h"
#include "kaon/tests/support/skip.h"

namespace kaon::test {

static bool skipped = false;
static uint64_t seed = 0;

void skip(const std::string& reason) {
  WARN("skipped: " << reason);
  skipped = true;
}

uint64_t schedule_seed() { return seed; }

}  // namespace kaon::test

// Under ThreadSanitizer: oneDNN is not instrumented, so its own synchronisation cannot be seen.
extern "C" const char* __tsan_default_suppressions() { return "race:libdnnl.so\n"; }
// Not a second for each case at its end, in which threads that still run may be found racing.
extern "C" const char* __tsan_default_options() { return "atexit_sleep_ms=50"; }

int main(int argc, char** argv) {
  using kaon::test::seed;
  Catch::Session session;
  session.cli(session.cli() |
              Catch::clara::Opt(seed, "seed")["--schedule"]("order of the default engine's operations"));
  if (const int wrong = session.applyCommandLine(argc, argv)) return wrong;
  if (seed != 0) kaon::Engine::set_default_options({.schedule = kaon::Schedule::random(seed)});
  const int failures = session.run();
  return failures != 0 ? 1 : kaon::test::skipped && seed == 0 ? 4 : 0;
}
