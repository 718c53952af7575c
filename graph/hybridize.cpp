#include "kaon/graph/hybridize.h"

#include <fmt/format.h>

#include "kaon/engine/error.h"
#include "kaon/graph/plan/batch_padding.h"

namespace kaon {

using namespace graph;

void HybridizeOptions::check() const {
  if (static_shape && !static_alloc) {
    throw ValueError("[hybridize] static_shape requires static_alloc");
  }
  if (winograd && exact) throw ValueError("[hybridize] winograd and exact exclude each other");
  if (autotune && exact) throw ValueError("[hybridize] autotune and exact exclude each other");
  if (winograd && verify > 0) {
    throw ValueError("[hybridize] verify's bounds are too narrow for winograd: verify without it");
  }
  if (max_plans < 1) throw ValueError(fmt::format("[hybridize] max_plans must be at least 1, got {}", max_plans));
  check_buckets(buckets);
  if (verify < 0) throw ValueError(fmt::format("[hybridize] verify is a number of calls, got {}", verify));
  if (policy == PlanPolicy::bucket && verify > 0) {
    throw ValueError("[hybridize] verify compares plans for the very shapes of a call: not those of policy bucket");
  }
  if (policy == PlanPolicy::bucket && exact) {
    throw ValueError("[hybridize] policy bucket is not exact: kernels may round otherwise for another number of rows");
  }
}

}  // namespace kaon
