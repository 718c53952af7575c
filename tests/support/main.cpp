// The main function of every test program. Returns 0 passed, 1 failed, 4 skipped.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "kaon/tests/support/skip.h"

namespace kaon::test {

static bool skipped = false;

void skip(const std::string& reason) {
  WARN("skipped: " << reason);
  skipped = true;
}

}  // namespace kaon::test

// Under ThreadSanitizer: oneDNN is not instrumented, so its own synchronisation cannot be seen.
extern "C" const char* __tsan_default_suppressions() { return "race:libdnnl.so\n"; }

int main(int argc, char** argv) {
  const int failures = Catch::Session().run(argc, argv);
  return failures != 0 ? 1 : kaon::test::skipped ? 4 : 0;
}
