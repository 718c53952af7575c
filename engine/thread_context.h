// ThreadContext: engine, device, recording, modes and block path of this thread or coroutine.
#pragma once

#include "kaon/engine/device.h"
#include "kaon/engine/engine_ref.h"

namespace kaon {

class Engine;
class MemoryBudget;
struct OpNode;

// A coroutine saves it at every suspension and restores it when it resumes, on whatever thread.
struct ThreadContext {
  EngineRef engine{};           // none: the process default
  Device device{};              // default device of creation functions
  void* interceptor = nullptr;  // ops::Interceptor: the tape or the tracer that sees calls
  bool recording = false;
  bool training = false;
  const char* block_path = nullptr;  // path of the running block
  bool tracing = false;              // a block is being traced: its arrays have no values
  bool in_task = false;              // a push must not block: the coroutine's next suspension point waits instead
  MemoryBudget* budget = nullptr;    // of the innermost EngineScope::with_budget; nullptr: the engine's
  Engine* op_engine = nullptr;       // of the operation that this coroutine is part of
  const OpNode* op = nullptr;        // that operation; nullptr in when_any, whose losers may outlive it
};

inline thread_local constinit ThreadContext t_context{};

inline ThreadContext& thread_context() { return t_context; }

}  // namespace kaon
