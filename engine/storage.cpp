#include "kaon/engine/storage.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <mutex>

#include "kaon/engine/error.h"
#include "kaon/engine/spin_lock.h"

namespace kaon {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool cache_blocks = false;  // let ASan see every life of a block
#else
constexpr bool cache_blocks = true;
#endif

constexpr size_t small_limit = 1024;             // below: the per-thread block pool
constexpr size_t region_bytes = size_t(4) << 20;  // middle sizes are carved from regions on 2 MB pages
constexpr size_t carve_limit = size_t(512) << 10;
constexpr size_t huge_page = size_t(2) << 20;
constexpr int class_count = 4 * 40;

// Classes 1/4 of a doubling apart: 1280, 1536, 1792, 2048, 2560 ...
int class_of(size_t bytes) {
  int top = int(std::bit_width(bytes - 1)) - 1;  // bytes in (2^top, 2^(top+1)]
  size_t step = size_t(1) << (top - 2);
  return 4 * (top - 10) + int((bytes - 1 - (size_t(1) << top)) / step);
}
size_t class_bytes(int k) {
  int top = k / 4 + 10;
  return (size_t(1) << top) + (size_t(k % 4) + 1) * (size_t(1) << (top - 2));
}

struct Free {
  Free* next;
};
struct alignas(64) FreeList {
  SpinLock lock;
  Free* head = nullptr;
};

}  // namespace

struct Storage::Impl {
  FreeList lists[class_count];
  alignas(64) std::atomic<size_t> live{0};
  std::atomic<size_t> cached{0};
  std::atomic<size_t> peak{0};
  std::atomic<size_t> limit{0};
  std::mutex region_mutex;
  char* region = nullptr;
  size_t region_left = 0;

  void* carve(size_t bytes) {
    std::lock_guard lock(region_mutex);
    if (region_left < bytes) {
      auto* fresh = static_cast<char*>(std::aligned_alloc(huge_page, region_bytes));
      if (!fresh) return nullptr;
      madvise(fresh, region_bytes, MADV_HUGEPAGE);
      region = fresh;
      region_left = region_bytes;
    }
    void* block = region;
    region += bytes;
    region_left -= bytes;
    return block;
  }

  void* fresh(size_t bytes) {
    if (!cache_blocks) return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (bytes <= carve_limit) return carve(bytes);
    size_t rounded = bytes < huge_page / 2 ? (bytes + 4095) / 4096 * 4096 : (bytes + huge_page - 1) / huge_page * huge_page;
    void* block = std::aligned_alloc(rounded % huge_page == 0 ? huge_page : 4096, rounded);
    if (block && rounded % huge_page == 0) madvise(block, rounded, MADV_HUGEPAGE);
    return block;
  }

  // Around a fork: the child gets no lock that a thread of its parent holds.
  void lock_all() {
    region_mutex.lock();
    for (FreeList& l : lists) l.lock.lock();
  }
  void unlock_all() {
    for (FreeList& l : lists) l.lock.unlock();
    region_mutex.unlock();
  }

  void count(size_t bytes) {
    size_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    size_t high = peak.load(std::memory_order_relaxed);
    while (now > high && !peak.compare_exchange_weak(high, now, std::memory_order_relaxed)) {
    }
  }
};

Storage::Storage() : impl_(new Impl) {}

Storage& Storage::cpu() {
  static auto* storage = [] {
    static Storage* made = new Storage;  // never destroyed: static arrays outlive main
    auto unlock = [] { made->impl_->unlock_all(); };
    pthread_atfork([] { made->impl_->lock_all(); }, unlock, unlock);
    return made;
  }();
  return *storage;
}

void* Storage::allocate(size_t bytes) {
  size_t limit = impl_->limit.load(std::memory_order_relaxed);
  if (limit && impl_->live.load(std::memory_order_relaxed) + bytes > limit) {
    throw MemoryError(fmt::format("[Storage] out of memory: requested {} bytes, live {}, cached {}, limit {}", bytes,
                                  stats().live, stats().cached, limit));
  }
  impl_->count(bytes);
  if (bytes <= small_limit) return pool_allocate(bytes);
  if (bytes >= (size_t(1) << 48)) {
    impl_->live.fetch_sub(bytes, std::memory_order_relaxed);
    throw MemoryError(fmt::format("[Storage] out of memory: requested {} bytes", bytes));
  }
  int k = class_of(bytes);
  size_t rounded = class_bytes(k);
  FreeList& list = impl_->lists[k];
  if (cache_blocks) {
    std::lock_guard lock(list.lock);
    if (Free* f = list.head) {
      list.head = f->next;
      impl_->cached.fetch_sub(rounded, std::memory_order_relaxed);
      return f;
    }
  }
  void* block = impl_->fresh(rounded);
  if (!block) {
    trim();
    block = impl_->fresh(rounded);
  }
  if (!block) {
    impl_->live.fetch_sub(bytes, std::memory_order_relaxed);
    throw MemoryError(fmt::format("[Storage] out of memory: requested {} bytes, live {}", bytes, stats().live));
  }
  return block;
}

void Storage::free(void* block, size_t bytes) noexcept {
  impl_->live.fetch_sub(bytes, std::memory_order_relaxed);
  if (bytes <= small_limit) return pool_free(block, bytes);
  if (!cache_blocks) return std::free(block);
  int k = class_of(bytes);
  FreeList& list = impl_->lists[k];
  auto* f = static_cast<Free*>(block);
  impl_->cached.fetch_add(class_bytes(k), std::memory_order_relaxed);
  std::lock_guard lock(list.lock);
  f->next = list.head;
  list.head = f;
}

void Storage::trim() noexcept {
  for (int k = 0; k < class_count; ++k) {
    size_t bytes = class_bytes(k);
    if (bytes <= carve_limit) continue;  // parts of regions stay for reuse
    Free* list;
    {
      std::lock_guard lock(impl_->lists[k].lock);
      list = std::exchange(impl_->lists[k].head, nullptr);
    }
    while (list) {
      Free* next = list->next;
      std::free(list);
      impl_->cached.fetch_sub(bytes, std::memory_order_relaxed);
      list = next;
    }
  }
}

void Storage::set_limit(size_t bytes) noexcept { impl_->limit.store(bytes, std::memory_order_relaxed); }

StorageStats Storage::stats() const noexcept {
  return {impl_->live.load(std::memory_order_relaxed), impl_->cached.load(std::memory_order_relaxed),
          impl_->peak.load(std::memory_order_relaxed)};
}

}  // namespace kaon
