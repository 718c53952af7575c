// How a reduction is divided among a device's threads: here without one.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "kaon/ops/reduce/kernels/reduce_plan.h"

namespace reduce_plan_test {

using namespace kaon;
using namespace kaon::ops;
using namespace kaon::cuda;

TEST_CASE("reduce plan: a reduction reads each element once, for the result that it belongs to", "[cuda]") {
  for (const Shape& shape : {Shape(2, 3, 4, 5), Shape(1, 3, 1, 5), Shape(2, 1, 3, 1), Shape(7), Shape(1),
                             Shape(3, 0, 2), Shape(2, 2, 2, 2, 2, 2, 2, 2)}) {
    for (uint32_t mask = 0; mask < 1u << shape.ndim(); ++mask) {
      const ReducePlan plan(ReduceDims(shape, mask).span());
      std::vector<std::vector<int64_t>> want(size_t(plan.kept.count)), got = want;
      for (int64_t i = 0; i < shape.size(); ++i) {
        int64_t result = 0, left = i, step = 1;
        for (int axis = shape.ndim(); axis-- > 0; left /= shape[axis]) {
          if (!(mask >> axis & 1)) result += left % shape[axis] * step, step *= shape[axis];
        }
        want.at(size_t(result)).push_back(i);
      }
      for (int64_t k = 0; k < plan.kept.count; ++k) {
        for (int64_t j = 0; j < plan.reduced.count; ++j) {
          got[size_t(k)].push_back(plan.kept.offset(k) + plan.reduced.offset(j));
        }
      }
      CHECK(got == want);
    }
  }
}

TEST_CASE("reduce plan: a team's threads are its lanes, and parts cover the elements", "[cuda]") {
  for (int64_t n : {0, 1, 2, 3, 5, 8, 31, 33, 100, 256, 257, 2000, 3000, 1 << 20}) {
    for (int64_t results : {1, 2, 3, 60, 256, 1000, 1 << 20}) {
      for (const bool last_kept : {false, true}) {
        const std::array<ReduceDim, 2> dims{last_kept ? ReduceDim{n, true} : ReduceDim{results, false},
                                            last_kept ? ReduceDim{results, false} : ReduceDim{n, true}};
        const ReducePlan plan(dims, n % 3 == 0 ? 1 : 4);
        const bool fits = plan.team.side_by_side ? results % 4 == 0 : n % 4 == 0 && plan.per_split % 4 == 0;
        CHECK((plan.width == 1 || (plan.width == 4 && fits)));
        const Team& team = plan.team;
        std::vector<int> seen(size_t(block), 0);
        for (int thread = 0; thread < block; ++thread) {
          ++seen.at(size_t(team.result(thread) * team.lanes() + team.lane(thread)));
        }
        CHECK(std::count(seen.begin(), seen.end(), 1) == block);
        CHECK(plan.groups() * team.results() * plan.results_at_a_time() >= results);
        CHECK((plan.splits == 1 || (plan.splits - 1) * plan.per_split < n));
        CHECK(plan.splits * plan.per_split >= n);
      }
    }
  }
}

}  // namespace reduce_plan_test
