// A one-byte lock for a handful of instructions, and the processor hints that go with it.
#pragma once

#include <atomic>
#include <thread>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace kaon {

inline void cpu_pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Brings the cache line at `p` here to be written, without waiting for it.
inline void prefetch_for_write(const void* p) noexcept {
#if defined(__x86_64__)
  asm volatile(
      "prefetchw %0" ::"m"(*static_cast<const char*>(p)));  // the builtin asks for a shared copy on plain x86-64
#else
  __builtin_prefetch(p, 1);
#endif
}

// Thread safety: that is what it is for. A waiter yields after 64 looks, so a holder that lost its core
// gets it back.
class SpinLock {
 public:
  void lock() noexcept {
    while (locked_.exchange(true, std::memory_order_acquire)) {  // pairs with unlock
      for (int looks = 0; locked_.load(std::memory_order_relaxed); ++looks) {
        if (looks < 64) {
          cpu_pause();
        } else {
          std::this_thread::yield();
        }
      }
    }
  }
  bool try_lock() noexcept { return !locked_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

}  // namespace kaon
