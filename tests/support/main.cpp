// The main function of every test program. Returns 0 passed, 1 failed, 4 every case was skipped. With --schedule
// <seed>, meant for many cases in one process, the default engine and those of at_thread_counts run what is ready in
// any legal order, on one thread, as the seed says.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "kaon/engine/engine.h"
#include "kaon/tests/support/schedule.h"
#include "kaon/tests/support/skip.h"

namespace kaon::test {

static size_t skipped = 0;  // cases
static uint64_t seed = 0;

void skip(const std::string& reason) {
  WARN("skipped: " << reason);
  ++skipped;
}

uint64_t schedule_seed() { return seed; }

}  // namespace kaon::test

// Under ThreadSanitizer: oneDNN and the C++ runtime are not instrumented, so their own synchronisation cannot be seen.
// An exception that one thread reads and another frees is counted in the runtime.
extern "C" const char* __tsan_default_suppressions() { return "race:libdnnl.so\nrace:complete_record\n"; }
// By default a program sleeps a second before it exits, so that races of its last threads are seen: 50 ms are enough.
extern "C" const char* __tsan_default_options() { return "atexit_sleep_ms=50"; }

int main(int argc, char** argv) {
  using kaon::test::seed;
  Catch::Session session;
  session.cli(session.cli() |
              Catch::clara::Opt(seed, "seed")["--schedule"]("order of the default engine's operations"));
  if (const int wrong = session.applyCommandLine(argc, argv)) return wrong;
  if (seed != 0) kaon::Engine::set_default_options({.schedule = kaon::Schedule::random(seed)});
  if (session.run() != 0) return 1;
  // A listener could count the cases that ran, but with one Catch writes out every assertion that holds.
  const Catch::Config& config = session.config();
  const size_t ran = Catch::filterTests(Catch::getAllTestCasesSorted(config), config.testSpec(), config).size();
  return kaon::test::skipped > 0 && kaon::test::skipped >= ran ? 4 : 0;  // ctest: skipped
}
