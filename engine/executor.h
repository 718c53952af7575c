// Executor: where a coroutine resumes.
#pragma once

#include <coroutine>
#include <memory>

#include "kaon/engine/threads/turn.h"
#include "kaon/engine/thread_context.h"

namespace kaon {

// Runs coroutines later, never inside post(). A posted coroutine may run and end on another thread before post()
// returns; the executor must stay valid until then. Thread safety: any thread.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void post(std::coroutine_handle<> work) = 0;
  // While the result exists, more work may be posted: an event loop that ends without work must not end. spawn() keeps
  // it during its Task, when_any during its losers. nullptr: the executor does not end by itself.
  virtual std::shared_ptr<void> hold() { return nullptr; }
};

// Posts without failing: while post() throws for lack of memory, gives the storage's cache back, sleeps and retries.
void post_surely(Executor& executor, std::coroutine_handle<> work) noexcept;

// Resumes a coroutine and restores the thread's own context afterwards. Every executor runs its work through this.
inline void resume_coroutine(std::coroutine_handle<> work) {
  ThreadContext saved = thread_context();
  const detail::TurnScope turn;
  work.resume();
  thread_context() = saved;
}

}  // namespace kaon
