// OpRunner: runs an operation whose accesses are granted, and passes them on at its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "kaon/engine/engine.h"
#include "kaon/engine/operation/wait_node.h"

namespace kaon::engine {

// The operation that this thread runs, and for which engine. Operations nest when one waits inside and helps.
struct Running {
  Engine::Impl* engine = nullptr;
  const OpNode* op = nullptr;
  Running* outer = nullptr;
  bool calls_program = false;  // and what the program touches, it has waited for
};
inline thread_local Running* t_running = nullptr;

// Nothing here throws: an operation that has begun is always settled. Thread safety: any thread.
class OpRunner {
 public:
  explicit OpRunner(Engine::Impl& engine) : engine_(engine) {}

  OpNode* execute(OpNode& op) noexcept;  // returns a successor that is ready
  // Ends an operation whose type says ends_later.
  void complete(OpNode& op, const std::exception_ptr& failure) noexcept;
  // Blocks until no other thread is inside complete(): one that has run the last operation may still look for more.
  void wait_for_completers() const noexcept;
  // Passes on the accesses of an operation and destroys it; returns a successor that is ready.
  OpNode* finish(OpNode& op) noexcept;
  void grant_all(Dep* list) noexcept;  // hands out the accesses that a completed or removed one has granted
  // Operations that have begun and hold no slot: coroutines.
  int ending_later() const noexcept { return ending_later_.load(std::memory_order_seq_cst); }

 private:
  struct Completer;
  // Stores or clears failures in the vars that the operation wrote, then finishes it.
  OpNode* settle(OpNode& op, const IntrusivePtr<const OpError>& error, bool spares_updates, bool heals) noexcept;
  void granted(OpBase& op, OpNode*& next, uint64_t by) noexcept;  // by: the op whose end granted it; 0: none
  void grant(Dep* list, OpNode*& next, uint64_t by) noexcept {
    for (Dep* d = list; d;) {
      Dep* following = d->next;  // before granted(), after which its operation may be destroyed
      granted(*d->op, next, by);
      d = following;
    }
  }
  void complete_waiter(WaitNode& waiter, OpNode*& next) noexcept;

  Engine::Impl& engine_;
  std::atomic<int> ending_later_{0};
  std::atomic<int> completers_{0};
};

}  // namespace kaon::engine
