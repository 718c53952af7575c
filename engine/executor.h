// Executor: where a coroutine resumes.
#pragma once

#include <coroutine>
#include <memory>

#include "kaon/engine/scheduler/turn.h"
#include "kaon/engine/thread_context.h"

namespace kaon {

// Runs coroutines later, never inside post(). A coroutine may run, and end, before the post() that has brought it
// returns on the engine's thread: what the executor stands on must bear that. Thread safety: any thread.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void post(std::coroutine_handle<> work) = 0;
  // Whoever keeps this is going to post: a loop that ends when there is nothing to do goes on. Kept by spawn() while
  // its Task lasts, by when_any while its losers do. nullptr where the executor lasts anyway.
  virtual std::shared_ptr<void> hold() { return nullptr; }
};

// For whoever must not fail: tries again, giving the storage's cache back and sleeping in between, while post() throws
// for want of memory.
void post_surely(Executor& executor, std::coroutine_handle<> work) noexcept;

// Resumes and gives the thread its own context back afterwards. Every executor runs its work through this.
inline void resume_coroutine(std::coroutine_handle<> work) {
  ThreadContext saved = thread_context();
  const detail::TurnScope turn;
  work.resume();
  thread_context() = saved;
}

}  // namespace kaon
