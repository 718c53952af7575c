// Kernels as on a processor without AVX-512, in a program of tests that runs with KAON_TEST_TARGETS=AVX2 in its
// environment. DNNL_MAX_CPU_ISA=AVX2 says the same to oneDNN.
#include <hwy/targets.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string_view>

namespace {

constexpr int64_t above_avx2 = HWY_AVX2 - 1;  // Highway numbers the targets of a processor from the best one on

bool is_limited() {
  const char* targets = std::getenv("KAON_TEST_TARGETS");
  return targets && std::string_view(targets) == "AVX2";
}

// Before main: no kernel has run.
[[maybe_unused]] const bool limited = [] {
  if (is_limited()) hwy::DisableTargets(above_avx2);
  return true;
}();

}  // namespace

TEST_CASE("targets: none is above those that the environment allows") {
  CHECK(hwy::SupportedTargets() != 0);
  if (is_limited()) CHECK((hwy::SupportedTargets() & above_avx2) == 0);
}
