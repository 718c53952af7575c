#include "kaon/engine/process_wide.h"

#include <atomic>

namespace kaon::detail {
namespace {
constinit std::atomic<ProcessWideLock*> g_first{nullptr};
constinit ProcessWideLock* g_locked = nullptr;  // from here on; by the thread that forks
}  // namespace

void add_process_wide(ProcessWideLock& lock) noexcept {
  lock.next = g_first.load(std::memory_order_relaxed);
  while (!g_first.compare_exchange_weak(lock.next, &lock, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void lock_process_wide() {
  ProcessWideLock* const first = g_first.load(std::memory_order_acquire);
  for (ProcessWideLock* l = first; l; l = l->next) l->lock(l->value);
  g_locked = first;
}

void unlock_process_wide() {
  ProcessWideLock* l = g_locked;
  while (l) {
    ProcessWideLock* const next = l->next;
    l->unlock(l->value);
    l = next;
  }
}

}  // namespace kaon::detail
