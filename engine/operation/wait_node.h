// A wait for one var, of a thread or a coroutine.
#pragma once

#include <cstdint>

#include "kaon/engine/operation.h"
#include "kaon/engine/operation/var.h"

namespace kaon::engine {

// Not counted as an operation.
struct WaitNode : OpBase {
  explicit WaitNode(const OpType& t, Var& var, AccessMode mode) {
    type = &t;
    num_deps = 1;
    deps = &dep;
    dep.op = this;
    dep.set(var, mode);
  }
  Dep dep;
  IntrusivePtr<const OpError> error;  // set before signal when the array has failed
  uint64_t ended_by = 0;              // sequence of the operation that ended the wait
  bool abandoned = false;             // under the var's lock: removed from the queue, and not to be queued again
  // For a wait inside an operation: links of the engine's list of them (OpWaits).
  const OpNode* waiting_op = nullptr;
  WaitNode* newer_wait = nullptr;
  WaitNode* older_wait = nullptr;
};

}  // namespace kaon::engine
