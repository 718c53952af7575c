// A one-byte lock for a handful of instructions.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace kaon::engine {

inline void cpu_pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// The value of a lock that is held in this process. Each forked child has another one.
inline constinit std::atomic<uint8_t> g_lock_mark{1};
[[noreturn]] void throw_locked_by_parent();

// Thread safety: any thread. A waiter yields after 64 tries, so that a holder that lost its core gets it back. In the
// child of a fork, lock() throws StateError when another thread of the parent held it at the fork: the child does not
// have that thread.
class SpinLock {
 public:
  void lock() {
    const uint8_t mark = g_lock_mark.load(std::memory_order_relaxed);
    while (const uint8_t held = locked_.exchange(mark, std::memory_order_acquire)) {  // pairs with unlock
      if (held != mark) [[unlikely]] {
        locked_.store(held, std::memory_order_relaxed);
        throw_locked_by_parent();
      }
      for (int looks = 0; locked_.load(std::memory_order_relaxed); ++looks) {
        if (looks < 64) {
          cpu_pause();
        } else {
          std::this_thread::yield();
        }
      }
    }
  }
  void unlock() noexcept { locked_.store(0, std::memory_order_release); }

 private:
  std::atomic<uint8_t> locked_{0};  // the mark of the process that holds it
};

}  // namespace kaon::engine
