#include "kaon/engine/base/process_wide.h"

namespace kaon::detail {
namespace {
constexpr size_t kinds = size_t(ForkOrder::others) + 1;
constinit std::array<std::atomic<ProcessWideLock*>, kinds> g_first{};
constinit std::array<ProcessWideLock*, kinds> g_locked{};  // heads of the lists when the forking thread locked them
}  // namespace

void add_process_wide(ProcessWideLock& lock) noexcept {
  std::atomic<ProcessWideLock*>& first = g_first[size_t(lock.order)];
  lock.next = first.load(std::memory_order_relaxed);
  while (!first.compare_exchange_weak(lock.next, &lock, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void lock_process_wide() {
  std::array<ProcessWideLock*, kinds> locked{};
  for (size_t k = 0; k < kinds; ++k) {
    locked[k] = g_first[k].load(std::memory_order_acquire);
    for (ProcessWideLock* l = locked[k]; l; l = l->next) l->lock(l->value);
  }
  g_locked = locked;  // not a race: the forking thread holds all the locks
}

void unlock_process_wide() {
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

}  // namespace kaon::detail
