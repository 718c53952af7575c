// A one-byte lock for a handful of instructions, and the pause that spinning loops use.
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
