// Engine::Impl: the parts of an engine, put together.
#pragma once

#include <cstdint>
#include <string>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/operation/failure_log.h"
#include "kaon/engine/operation/op_counts.h"
#include "kaon/engine/operation/ready_ops.h"
#include "kaon/engine/profiler.h"
#include "kaon/engine/scheduler/backpressure.h"
#include "kaon/engine/scheduler/deadlock.h"
#include "kaon/engine/scheduler/op_memory.h"
#include "kaon/engine/scheduler/op_runner.h"
#include "kaon/engine/scheduler/var_waits.h"
#include "kaon/engine/scheduler/workers.h"
#include "kaon/engine/threads/io_pool.h"

namespace kaon {

// What one part needs of another it finds here.
struct Engine::Impl {
  static constexpr uint32_t no_process = UINT32_MAX;  // of Engine::ended()

  // `forks`: fork_count(), or no_process. Throws as Engine's constructor.
  Impl(Engine& engine, const EngineOptions& options, uint32_t forks);

  // The engine has ended, or was made in the parent of this forked process: it has no threads here. Calls that need
  // them throw StateError.
  bool is_gone() const noexcept { return forks != engine::fork_count(); }
  [[noreturn]] void throw_gone(const char* op = "engine", const std::string& where = {}) const;
  // Throws StateError unless the var's last write has ended. Takes no lock: no thread writes any more, and one that
  // does not exist in this forked process may hold it.
  void check_finished(const engine::Var& var) const;

  Engine& self;
  const uint32_t forks;
  const EngineOptions options;

  engine::OpCounts counts;
  engine::ReadyOps ready;             // what may run
  engine::OpRunner runner;            // runs one and passes its accesses on
  engine::VarWaits waits;             // for a var
  engine::DeadlockWatch deadlocks;    // of waits inside operations
  engine::Backpressure backpressure;  // waits for room
  engine::OpMemory memory;
  engine::FailureLog failures;
  Profiler profiler;
  engine::IoPool io;        // its threads use all of the above, as those of
  engine::Workers workers;  // do: both end first
};

}  // namespace kaon
