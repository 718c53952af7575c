#include "kaon/engine/executor.h"

#include <chrono>
#include <new>
#include <thread>

#include "kaon/engine/error.h"
#include "kaon/engine/storage.h"

namespace kaon {

void post_surely(Executor& executor, std::coroutine_handle<> work) noexcept {
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    try {
      return executor.post(work);
    } catch (const std::bad_alloc&) {
    } catch (const MemoryError&) {
    }
    Storage::cpu().trim();
  }
}

}  // namespace kaon
