#include "kaon/engine/block_pool.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/error.h"
#include "kaon/engine/storage.h"

namespace kaon::engine {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool recycle = false;  // let ASan see every life of a block
#else
constexpr bool recycle = true;
#endif

using Block = PoolCache::Block;
constexpr size_t page_bytes = 64 * 1024;
constexpr size_t unit = PoolCache::unit;

struct PageHeader {
  PoolCache* owner;
};

// Caches of threads that ended, for the next ones.
struct Orphans : WithMutex {
  PoolCache* first = nullptr;
};
Orphans& orphans() { return ProcessWide<Orphans>::get(); }

struct CacheLease {
  ~CacheLease() {
    std::lock_guard lock(orphans().mutex);
    t_pool_cache->next = std::exchange(orphans().first, t_pool_cache);
    t_pool_cache = nullptr;
  }
};

[[gnu::noinline]] PoolCache* adopt_pool_cache() {
  {
    std::lock_guard lock(orphans().mutex);
    if (orphans().first) t_pool_cache = std::exchange(orphans().first, orphans().first->next);
  }
  if (!t_pool_cache) {
    void* place = Storage::cpu().from_system(unit, (sizeof(PoolCache) + unit - 1) / unit * unit);
    if (!place) return nullptr;
    t_pool_cache = new (place) PoolCache;  // never freed
  }
  static thread_local CacheLease lease;
  (void)lease;
  return t_pool_cache;
}

PoolCache* cache() { return t_pool_cache ? t_pool_cache : adopt_pool_cache(); }

[[gnu::noinline]] Block* refill(PoolCache& c, size_t k) {
  if (Block* b = c.remote[k].exchange(nullptr, std::memory_order_acquire)) return b;  // pairs with the push below
  char* page = static_cast<char*>(Storage::cpu().from_system(page_bytes, page_bytes));
  if (!page) return nullptr;
  reinterpret_cast<PageHeader*>(page)->owner = &c;
  size_t size = (k + 1) * unit;
  Block* list = nullptr;
  for (size_t at = unit; at + size <= page_bytes; at += size) {
    auto* b = reinterpret_cast<Block*>(page + at);
    b->next = list;
    list = b;
  }
  return list;
}

// nullptr: no memory.
[[gnu::always_inline]] inline void* take(size_t bytes) {
  const size_t k = PoolCache::class_of(bytes);
  PoolCache* c = cache();
  if (!c) [[unlikely]]
    return nullptr;
  if (!c->local[k] && !(c->local[k] = refill(*c, k))) [[unlikely]]
    return nullptr;
  return c->take(k);
}

void* take_unpooled(size_t bytes) noexcept {
  if (void* block = ::operator new(bytes, std::align_val_t(unit), std::nothrow)) return block;
  Storage::cpu().trim();
  return ::operator new(bytes, std::align_val_t(unit), std::nothrow);
}

[[noreturn, gnu::noinline]] void refuse(size_t bytes) {
  throw_memory_error(
      [&] { return "[engine] out of memory: requested a block of " + std::to_string(bytes) + " bytes"; });
}

}  // namespace

void* pool_allocate(size_t bytes) {
  if (recycle && bytes > PoolCache::num_classes * unit) return Storage::cpu().allocate(bytes);
  void* block = recycle ? take(bytes) : take_unpooled(bytes);
  if (!block) [[unlikely]]
    refuse(bytes);
  return block;
}

void* pool_try_allocate(size_t bytes) noexcept {
  if (recycle && bytes > PoolCache::num_classes * unit) return Storage::cpu().try_allocate(bytes);
  return recycle ? take(bytes) : take_unpooled(bytes);
}

void pool_free(void* block, size_t bytes) noexcept {
  if (!recycle) return ::operator delete(block, std::align_val_t(unit));
  if (bytes > PoolCache::num_classes * unit) return Storage::cpu().free(block, bytes);
  const size_t k = PoolCache::class_of(bytes);
  auto* page = reinterpret_cast<PageHeader*>(reinterpret_cast<uintptr_t>(block) & ~(page_bytes - 1));
  auto* b = static_cast<Block*>(block);
  PoolCache* owner = page->owner;
  if (owner == t_pool_cache) {
    b->next = owner->local[k];
    owner->local[k] = b;
    return;
  }
  Block* head = owner->remote[k].load(std::memory_order_relaxed);
  do {
    b->next = head;
  } while (!owner->remote[k].compare_exchange_weak(head, b, std::memory_order_release, std::memory_order_relaxed));
}

}  // namespace kaon::engine
