// CallMemory: preallocated memory for the Asio handlers that wake the threads of an engine's pools.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace kaon::engine {

// Posting a handler to a thread pool allocates. A ready operation or coroutine must reach a thread even if the process
// is out of memory, so Asio allocates these handlers from a fixed set of blocks: one per thread, at most 64. If all
// blocks are in use, that many handlers are already queued, and posting another is unnecessary: each handler returns
// its block before it reads the queue of work. Thread safety: any thread.
class CallMemory {
 public:
  static constexpr size_t block_bytes = 128;

  explicit CallMemory(int threads)
      : blocks_(new Block[size_t(std::clamp(threads, 1, 64))]),
        free_(threads >= 64 ? ~uint64_t(0) : (uint64_t(1) << std::max(threads, 1)) - 1) {}

  // nullptr if all blocks are in use.
  void* take() noexcept {
    uint64_t free = free_.load(std::memory_order_seq_cst);  // ordered after the caller's push to the queue
    while (free) {
      const int i = std::countr_zero(free);
      if (free_.compare_exchange_weak(free, free & ~(uint64_t(1) << i), std::memory_order_seq_cst)) return &blocks_[i];
    }
    return nullptr;
  }
  void give(void* block) noexcept {
    const auto i = static_cast<Block*>(block) - blocks_.get();
    free_.fetch_or(uint64_t(1) << i, std::memory_order_seq_cst);  // ordered before the thread reads the queue
  }

 private:
  struct alignas(64) Block {
    std::byte bytes[block_bytes];
  };
  std::unique_ptr<Block[]> blocks_;
  std::atomic<uint64_t> free_;
};

// Allocator for a single object, whose storage is `block`.
template <class T>
struct CallAllocator {
  using value_type = T;
  CallAllocator(CallMemory& memory, void* block) noexcept : memory(&memory), block(block) {}
  template <class U>
  CallAllocator(const CallAllocator<U>& o) noexcept : memory(o.memory), block(o.block) {}
  T* allocate(size_t n) noexcept {
    static_assert(sizeof(T) <= CallMemory::block_bytes && alignof(T) <= 64);
    return n == 1 ? static_cast<T*>(block) : nullptr;
  }
  void deallocate(T*, size_t) noexcept { memory->give(block); }
  template <class U>
  friend bool operator==(const CallAllocator& a, const CallAllocator<U>& b) {
    return a.block == b.block;
  }
  CallMemory* memory;
  void* block;
};

}  // namespace kaon::engine
