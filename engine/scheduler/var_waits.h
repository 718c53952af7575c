// VarWaits: waits of threads and coroutines for a var, and reads that are over at once.
#pragma once

#include <atomic>
#include <span>

#include "kaon/engine/engine.h"
#include "kaon/engine/operation/wait_node.h"

namespace kaon::engine {

// The functions of Engine with these names say what each does. Thread safety: any thread.
class VarWaits {
 public:
  explicit VarWaits(Engine::Impl& engine) : engine_(engine) {}

  void wait(Var& var, AccessMode mode);
  bool enqueue(WaitNode& waiter, const Executor* resumes_on);
  bool abandon(WaitNode& waiter);
  bool read_now(Var& var, FunctionRef<void()> body);
  // The caller has checked that no budget is active.
  bool run_now(std::span<Var* const> reads, FunctionRef<void(RunContext&)> body) noexcept;
  bool is_reading_now() const noexcept { return reading_now_.load(std::memory_order_seq_cst) > 0; }

 private:
  // False: the var is ready now. op: the operation that waits, or nullptr; has_thread: as DeadlockWatch::begin_wait.
  bool queue(WaitNode& waiter, const OpNode* op, bool has_thread);

  Engine::Impl& engine_;
  std::atomic<int> reading_now_{0};  // bodies that read_now is running
};

}  // namespace kaon::engine
