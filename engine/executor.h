// Executor: where a coroutine resumes.
#pragma once

#include <coroutine>
#include <memory>

#include "kaon/engine/thread_context.h"

namespace kaon {

// Runs coroutines later, never inside post(). Thread safety: post: any thread.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void post(std::coroutine_handle<> work) = 0;
};

// Resumes and gives the thread its own context back afterwards. Every executor runs its work through this.
inline void resume_coroutine(std::coroutine_handle<> work) {
  ThreadContext saved = thread_context();
  work.resume();
  thread_context() = saved;
}

}  // namespace kaon
