#include "kaon/engine/scheduler/op_memory.h"

#include <chrono>
#include <thread>

#include "kaon/engine/memory/shortage.h"
#include "kaon/engine/scheduler/engine_impl.h"

namespace kaon::engine {

void* OpMemory::allocate(size_t bytes) {
  if (void* data = Storage::cpu().try_allocate(bytes)) return data;
  drop_caches();
  if (void* data = allocate_after_others(bytes)) return data;
  try {
    return Storage::cpu().allocate(bytes);
  } catch (const MemoryError& e) {
    throw_memory_error([&] { return e.what() + largest_holders(); });
  }
}

void* OpMemory::allocate_after_others(size_t bytes) {
  // An operation run here while another one waits for memory may have to wait as well, on the same stack: bounded.
  constexpr int deepest = 8;
  static thread_local int t_depth = 0;
  static thread_local std::chrono::steady_clock::time_point until;  // of the outermost one
  if (t_depth == deepest) return nullptr;
  if (t_depth++ == 0) until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  void* data = nullptr;
  Workers& workers = engine_.workers;
  const int own = workers.caller_has_slot() ? 1 : 0;
  for (bool others = true; others && !data && std::chrono::steady_clock::now() < until;) {
    others = workers.help([] { return false; });
    if (!others) {
      // operations on other threads may free memory, unless they wait for it like this one
      workers.slots.begin_starving(own);
      if (workers.slots.others_may_free_memory()) {
        others = true;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      workers.slots.end_starving(own);
    }
    data = Storage::cpu().try_allocate(bytes);
  }
  --t_depth;
  return data;
}

}  // namespace kaon::engine
