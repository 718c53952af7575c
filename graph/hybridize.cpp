#include "kaon/graph/hybridize.h"

#include <fmt/format.h>

#include "kaon/engine/error.h"
#include "kaon/graph/plan/batch_padding.h"

namespace kaon {

void check(const HybridizeOptions& options) {
  if (options.static_shape && !options.static_alloc) {
    throw ValueError("[hybridize] static_shape requires static_alloc");
  }
  if (options.winograd && options.exact) throw ValueError("[hybridize] winograd and exact exclude each other");
  if (options.autotune && options.exact) throw ValueError("[hybridize] autotune and exact exclude each other");
  if (options.winograd && options.verify > 0) {
    throw ValueError("[hybridize] verify's bounds are too narrow for winograd: verify without it");
  }
  if (options.max_plans < 1)
    throw ValueError(fmt::format("[hybridize] max_plans must be at least 1, got {}", options.max_plans));
  check_buckets(options.buckets);
  if (options.verify < 0)
    throw ValueError(fmt::format("[hybridize] verify is a number of calls, got {}", options.verify));
  if (options.policy == PlanPolicy::bucket && options.verify > 0) {
    throw ValueError("[hybridize] verify compares plans for the very shapes of a call: not those of policy bucket");
  }
  if (options.policy == PlanPolicy::bucket && options.exact) {
    throw ValueError("[hybridize] policy bucket is not exact: kernels may round otherwise for another number of rows");
  }
}

}  // namespace kaon
