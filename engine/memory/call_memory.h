// CallMemory: memory for the calls of an engine's workers, which must not fail.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace kaon {

// An operation that has become ready must reach a worker, also when the process has no memory left: so what Asio keeps
// of the handler that calls one comes from here. There are as many blocks as workers, 64 at most. When all are taken,
// as many workers have been called as are useful: each looks at the queue when it comes, after it has given its block
// back. Thread safety: any thread.
class CallMemory {
 public:
  static constexpr size_t block_bytes = 128;

  explicit CallMemory(int workers)
      : blocks_(new Block[size_t(std::clamp(workers, 1, 64))]),
        free_(workers >= 64 ? ~uint64_t(0) : (uint64_t(1) << std::max(workers, 1)) - 1) {}

  // nullptr: all are taken.
  void* take() noexcept {
    uint64_t free = free_.load(std::memory_order_seq_cst);  // after what the caller has queued
    while (free) {
      const int i = std::countr_zero(free);
      if (free_.compare_exchange_weak(free, free & ~(uint64_t(1) << i), std::memory_order_seq_cst)) return &blocks_[i];
    }
    return nullptr;
  }
  void give(void* block) noexcept {
    const auto i = static_cast<Block*>(block) - blocks_.get();
    free_.fetch_or(uint64_t(1) << i, std::memory_order_seq_cst);  // before the worker looks at the queue
  }

 private:
  struct alignas(64) Block {
    std::byte bytes[block_bytes];
  };
  std::unique_ptr<Block[]> blocks_;
  std::atomic<uint64_t> free_;
};

// Gives the block that it was made with, once.
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

}  // namespace kaon
