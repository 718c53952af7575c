#include "kaon/engine/base/process_wide.h"

#include <pthread.h>

#include "kaon/engine/base/spin_lock.h"

namespace kaon::engine {
namespace {
constexpr size_t kinds = size_t(ForkOrder::others) + 1;
constinit std::array<std::atomic<ProcessWideLock*>, kinds> g_first{};
constinit std::array<ProcessWideLock*, kinds> g_locked{};  // heads of the lists when the forking thread locked them

void lock_all() {
  std::array<ProcessWideLock*, kinds> locked{};
  for (size_t k = 0; k < kinds; ++k) {
    locked[k] = g_first[k].load(std::memory_order_acquire);
    for (ProcessWideLock* l = locked[k]; l; l = l->next) l->lock(l->value);
  }
  g_locked = locked;  // not a race: the forking thread holds all the locks
}

void unlock_all() {
  const std::array<ProcessWideLock*, kinds> locked = g_locked;
  for (size_t k = kinds; k-- > 0;) {
    ProcessWideLock* l = locked[k];
    while (l) {
      ProcessWideLock* const next = l->next;
      l->unlock(l->value);
      l = next;
    }
  }
}

void after_fork_in_child() {
  unlock_all();
  const uint32_t forks = g_forks.fetch_add(1, std::memory_order_relaxed) + 1;
  g_lock_mark.store(uint8_t(1 + forks % 255), std::memory_order_relaxed);
}
[[maybe_unused]] const int g_notices_forks = pthread_atfork(lock_all, unlock_all, after_fork_in_child);

}  // namespace

void add_process_wide(ProcessWideLock& lock) noexcept {
  std::atomic<ProcessWideLock*>& first = g_first[size_t(lock.order)];
  lock.next = first.load(std::memory_order_relaxed);
  while (!first.compare_exchange_weak(lock.next, &lock, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace kaon::engine
