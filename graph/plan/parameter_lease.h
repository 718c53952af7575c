// ParameterLease: the parameters of a plan under one shared read lease, read by call after call.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/operation/shared_read_lease.h"
#include "kaon/ops/ndarray.h"

namespace kaon::graph {

struct ParameterLease final : SharedReadLease {
  using SharedReadLease::SharedReadLease;
  std::vector<NDArray> arrays;
  const uint64_t number = ++last_number;  // from 1

 private:
  static inline std::atomic<uint64_t> last_number{0};
};

// Decides when the calls of a plan read its parameters under a lease, and owns that lease. A lease pays when the
// parameters are not written for a while: it is begun once some calls have found the same arrays and no write has come
// between; the first write to one of them ends it. Thread safety: any thread.
class PlanParameters {
 public:
  // `inputs`: the numbers of a call's inputs that are parameters; fewer than two are never leased.
  explicit PlanParameters(const std::vector<uint32_t>& inputs) : inputs_(inputs) {}
  // Ends the lease where forget() would.
  ~PlanParameters();
  PlanParameters(const PlanParameters&) = delete;
  PlanParameters& operator=(const PlanParameters&) = delete;

  // The lease for a call with these arrays; null: the call reads them itself. Throws std::bad_alloc, and StateError as
  // forget() does.
  IntrusivePtr<ParameterLease> lease(std::span<const NDArray* const> arrays);
  // Ends the lease, until some more calls have found the same arrays. Throws StateError in the child of a fork in which
  // a thread of the parent is inside the lease.
  void forget();

 private:
  const std::vector<uint32_t>& inputs_;
  // on a cache line of their own: calls write them
  alignas(64) SpinLock lock_;
  std::vector<const ArrayNode*> last_;    // of the last call, only compared
  int calls_alike_ = 0;                   // with these, since the last write that was noticed
  IntrusivePtr<ParameterLease> current_;  // null, or begun
};

}  // namespace kaon::graph
