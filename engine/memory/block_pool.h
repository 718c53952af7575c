// Small blocks of memory, recycled per thread: op nodes, array nodes, coroutine frames.
#pragma once

#include <cstddef>
#include <vector>

#include "kaon/engine/storage.h"

namespace kaon {

// How it works. Blocks of one size class (multiples of 64 bytes, up to 1 KiB) come from 64 KiB pages that
// belong to the thread that took them. The owner keeps a private free list; another thread that frees a block
// pushes it to the owner's public list, which the owner takes whole when its own list is empty. So taking and
// giving cost a few instructions, without a lock and without ABA. A thread that ends leaves its pages to the
// next one that starts. Larger blocks come from Storage.
//
// When the system has no memory, Storage's cached blocks are given back to it first. Blocks are 64-byte aligned.
// Thread safety: any thread may free a block of another thread.
void* pool_allocate(size_t bytes);                   // throws MemoryError
void* pool_try_allocate(size_t bytes) noexcept;      // the same, but nullptr
void pool_free(void* block, size_t bytes) noexcept;  // `bytes` as allocated

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

}  // namespace kaon
