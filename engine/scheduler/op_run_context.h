// OpRunContext: what an operation on the host gets from its engine while it runs.
#pragma once

#include "kaon/engine/engine.h"

namespace kaon::engine {

// Thread safety: as RunContext.
class OpRunContext final : public RunContext {
 public:
  explicit OpRunContext(Engine& engine) : engine_(engine) {}
  ~OpRunContext() override {
    if (blocks_) free_workspace();
  }
  void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) override;
  void* workspace(size_t bytes) override;
  void free_workspace() noexcept override;

 private:
  struct Block;
  Engine& engine_;
  Block* blocks_ = nullptr;
};

// Calls body, inside a piece of parallel_for, with a context of its own: its workspace ends with the piece, and its
// parallel_for is the engine's. Thread safety: any thread that runs a piece of an operation of this engine.
void run_piece(Engine& engine, FunctionRef<void(RunContext&)> body);

}  // namespace kaon::engine
