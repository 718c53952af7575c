// PoolCache: the free blocks of one thread; and a block of a size that is known at compile time in a few instructions.
#pragma once

#include <atomic>
#include <cstddef>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/memory/block_pool.h"

namespace kaon {

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

// As pool_allocate.
template <size_t bytes>
void* pool_allocate_fixed() {
  constexpr size_t k = PoolCache::class_of(bytes);
  static_assert(k < PoolCache::num_classes);
  PoolCache* const cache = t_pool_cache;
  if (!cache || !cache->local[k]) [[unlikely]]
    return pool_allocate(bytes);
  return cache->take(k);
}

}  // namespace kaon
