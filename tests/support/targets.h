// Kernels for one processor or another that this machine can be.
#pragma once

#include <hwy/targets.h>

#include <catch2/catch.hpp>
#include <cstdint>

namespace kaon::test {

// While it lives, Highway's kernels are those for these targets. Thread safety: none; no kernel may run meanwhile.
class OnlyTargets {
 public:
  explicit OnlyTargets(int64_t targets) { choose(targets); }
  ~OnlyTargets() { choose(0); }
  OnlyTargets(const OnlyTargets&) = delete;
  OnlyTargets& operator=(const OnlyTargets&) = delete;

 private:
  static void choose(int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

// Calls f() with the kernels of each target alone; gives their number.
template <class F>
int for_each_target(F&& f) {
  int targets = 0;
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1, ++targets) {
    const int64_t target = left & -left;
    const OnlyTargets only(target);
    INFO(hwy::TargetName(target));
    f();
  }
  return targets;
}

}  // namespace kaon::test
