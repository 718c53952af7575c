// Small blocks of memory, recycled per thread: op nodes, array nodes, coroutine frames.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "kaon/engine/api.h"

namespace KAON_API kaon {
namespace engine {

// How it works. Blocks of one size class (multiples of 64 bytes, up to 1 KiB) come from 64 KiB pages that
// belong to the thread that took them. The owner keeps a private free list; another thread that frees a block
// pushes it to the owner's public list, which the owner takes whole when its own list is empty. So taking and
// giving cost a few instructions, without a lock and without ABA. A thread that ends leaves its pages to the
// next one that starts. Larger blocks come from Storage.
//
// When the system has no memory, Storage's cached blocks are given back to it first. Blocks are 64-byte aligned.
// Thread safety: any thread may free a block of another thread.
KAON_API void* pool_allocate(size_t bytes);                   // throws MemoryError
KAON_API void* pool_try_allocate(size_t bytes) noexcept;      // the same, but nullptr
KAON_API void pool_free(void* block, size_t bytes) noexcept;  // `bytes` as allocated

// Prefetches the cache line at `p` for writing.
inline void prefetch_for_write(const void* p) noexcept {
#if defined(__x86_64__)
  asm volatile(
      "prefetchw %0" ::"m"(*static_cast<const char*>(p)));  // the builtin asks for a shared copy on plain x86-64
#else
  __builtin_prefetch(p, 1);
#endif
}

// The free blocks of one thread.
struct PoolCache {
  struct Block {
    Block* next;
  };
  static constexpr size_t unit = 64, num_classes = 16;  // 64 .. 1024 bytes
  static constexpr size_t class_of(size_t bytes) { return (bytes + unit - 1) / unit - (bytes ? 1 : 0); }

  PoolCache* next = nullptr;  // of those whose threads have ended
  Block* local[num_classes] = {};
  std::atomic<Block*> remote[num_classes] = {};  // freed by other threads

  // The first free block of a class that has one.
  void* take(size_t k) noexcept {
    Block* const block = local[k];
    Block* const following = local[k] = block->next;
    // Another core has used it last, and the caller will take it soon.
    if (following) {
      for (size_t at = 0; at <= k * unit; at += unit) prefetch_for_write(reinterpret_cast<char*>(following) + at);
    }
    return block;
  }
};
inline constinit thread_local PoolCache* t_pool_cache = nullptr;  // none before the first allocation

// As pool_allocate, for a size that is known at compile time: a few instructions.
template <size_t bytes>
KAON_THREAD_LOCAL_READ void* pool_allocate_fixed() {
  constexpr size_t k = PoolCache::class_of(bytes);
  static_assert(k < PoolCache::num_classes);
  PoolCache* const cache = t_pool_cache;
  if (!cache || !cache->local[k]) [[unlikely]]
    return pool_allocate(bytes);
  return cache->take(k);
}

// Gives a class operator new and delete that recycle small blocks per thread.
struct Pooled {
  static void* operator new(size_t bytes) { return pool_allocate(bytes); }
  static void* operator new(size_t, void* place) noexcept { return place; }
  static void operator delete(void* block, size_t bytes) noexcept { pool_free(block, bytes); }
};

// For containers that live as long as one call or one recorded operation, and for Asio's handlers.
template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) noexcept {}
  T* allocate(size_t n) { return static_cast<T*>(pool_allocate(n * sizeof(T))); }
  void deallocate(T* p, size_t n) noexcept { pool_free(p, n * sizeof(T)); }
  template <class U>
  friend bool operator==(const PoolAllocator&, const PoolAllocator<U>&) {
    return true;
  }
};
template <class T>
using PooledVector = std::vector<T, PoolAllocator<T>>;

}  // namespace engine
}  // namespace kaon
