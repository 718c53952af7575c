#include "kaon/engine/storage.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/block_pool.h"
#include "kaon/engine/error.h"
#include "kaon/engine/memory/guarded_memory.h"

namespace kaon {

using namespace engine;
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool cache_blocks = false;  // let ASan see every life of a block
#else
constexpr bool cache_blocks = true;
#endif

constexpr size_t small_limit = 1024;              // below: the per-thread block pool
constexpr size_t region_bytes = size_t(4) << 20;  // middle sizes are carved from regions on 2 MB pages
constexpr size_t carve_limit = size_t(512) << 10;
constexpr size_t huge_page = size_t(2) << 20;
constexpr int class_count = 4 * 40;
// What is reserved in whole blocks may exceed the peak of live bytes by this, or by half of that peak if it is more;
// after the system has refused memory, this much may be cached in them, and what has been allocated anew since. Parts
// of regions do not count: they cannot be given back, and a process that has seen many sizes would keep nothing else.
constexpr size_t cache_floor = size_t(24) << 20;

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

// The bytes that a request takes: a block of its class, or of the block pool.
size_t block_bytes(size_t bytes) {
  return bytes > small_limit ? class_bytes(class_of(bytes)) : (std::max<size_t>(bytes, 1) + 63) / 64 * 64;
}

struct Free {
  Free* next;
};
struct alignas(64) FreeList {
  SpinLock lock;
  Free* head = nullptr;
  uint64_t asked = 0;  // the number of whole blocks that were allocated anew when this class was asked for last
};

// Bytes of large blocks of one kind.
struct Kind {
  std::atomic<size_t> cached{0};
  std::atomic<size_t> reserved{0};  // from the system
};

}  // namespace

struct Storage::Impl {
  FreeList lists[class_count];
  alignas(64) std::atomic<size_t> small{0};  // bytes handed out from the block pool
  std::atomic<size_t> large{0};              // bytes handed out from here
  Kind carved, whole;                        // parts of regions; blocks above carve_limit
  std::atomic<size_t> peak{0};
  std::atomic<size_t> limit{0};
  std::atomic<size_t> most_cached{SIZE_MAX};
  std::atomic<uint64_t> made{0};  // whole blocks allocated anew
  std::mutex region_mutex;
  char* region = nullptr;
  size_t region_left = 0;

  void* carve(size_t bytes) {
    std::lock_guard lock(region_mutex);
    if (region_left < bytes) {
      auto* fresh = static_cast<char*>(std::aligned_alloc(huge_page, region_bytes));
      if (!fresh) return nullptr;
      madvise(fresh, region_bytes, MADV_HUGEPAGE);
      add(carved.reserved, region_bytes);
      add(carved.cached, region_bytes);
      region = fresh;
      region_left = region_bytes;
    }
    void* block = region;
    region += bytes;
    region_left -= bytes;
    subtract(carved.cached, bytes);
    return block;
  }

  void* fresh(size_t bytes) {
    if (cache_blocks && bytes <= carve_limit) return carve(bytes);
    size_t alignment = !cache_blocks ? 64 : bytes < huge_page / 2 ? 4096 : huge_page;
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* block = std::aligned_alloc(alignment, rounded);
    if (!block) return nullptr;
    if (alignment == huge_page) madvise(block, rounded, MADV_HUGEPAGE);
    add(kind_of(bytes).reserved, bytes);
    made.fetch_add(1, std::memory_order_relaxed);
    if (const size_t most = most_cached.load(std::memory_order_relaxed); most < SIZE_MAX - bytes) {
      most_cached.store(most + bytes, std::memory_order_relaxed);  // a lost update does no harm
    }
    return block;
  }

  // The system has refused memory.
  void refused() noexcept {
    most_cached.store(cache_floor, std::memory_order_relaxed);
    give_back_until(0);
  }

  // Gives cached blocks back until at most this much is reserved in whole blocks: those of the classes first that have
  // not been asked for the longest time, or a program that needs two sizes in turn would lose the one for the other.
  void give_back_until(size_t most_reserved) noexcept {
    std::array<std::pair<uint64_t, int>, class_count> order;  // negative classes: of two, the larger first
    for (int k = 0; k < class_count; ++k) {
      std::lock_guard lock(lists[k].lock);
      order[size_t(k)] = {lists[k].asked, -k};
    }
    std::sort(order.begin(), order.end());
    for (const auto& [asked, negative] : order) {
      const int k = -negative;
      const size_t bytes = class_bytes(k);
      if (bytes <= carve_limit) continue;
      while (whole.reserved.load(std::memory_order_relaxed) > most_reserved) {
        Free* block;
        {
          std::lock_guard lock(lists[k].lock);
          block = lists[k].head;
          if (!block) break;
          lists[k].head = block->next;
        }
        std::free(block);
        subtract(whole.cached, bytes);
        subtract(whole.reserved, bytes);
      }
    }
  }

  // Called before fresh memory is allocated: changing shapes must not pile up a cache for each size.
  void make_way(size_t bytes) noexcept {
    const size_t high = peak.load(std::memory_order_relaxed);
    const size_t most = high + std::max(high / 2, cache_floor);
    if (whole.reserved.load(std::memory_order_relaxed) + bytes > most) give_back_until(most - std::min(most, bytes));
  }

  void lock_all() {
    region_mutex.lock();
    for (FreeList& l : lists) l.lock.lock();
  }
  void unlock_all() {
    for (FreeList& l : lists) l.lock.unlock();
    region_mutex.unlock();
  }

  size_t live() const { return small.load(std::memory_order_relaxed) + large.load(std::memory_order_relaxed); }
  Kind& kind_of(size_t rounded) { return rounded > carve_limit ? whole : carved; }
  size_t cached() const {
    return carved.cached.load(std::memory_order_relaxed) + whole.cached.load(std::memory_order_relaxed);
  }
  std::atomic<size_t>& handed_out(size_t bytes) { return bytes <= small_limit ? small : large; }

  // Counts bytes as handed out, unless that would exceed the limit.
  bool count(std::atomic<size_t>& counter, size_t bytes) {
    add(counter, bytes);
    const size_t now = live();
    const size_t most = limit.load(std::memory_order_relaxed);
    if (most && now > most) {
      subtract(counter, bytes);
      return false;
    }
    size_t high = peak.load(std::memory_order_relaxed);
    while (now > high && !peak.compare_exchange_weak(high, now, std::memory_order_relaxed)) {
    }
    return true;
  }
  static void add(std::atomic<size_t>& counter, size_t bytes) { counter.fetch_add(bytes, std::memory_order_relaxed); }
  static void subtract(std::atomic<size_t>& counter, size_t bytes) {
    counter.fetch_sub(bytes, std::memory_order_relaxed);
  }

  std::string refusal(size_t bytes) const {
    std::string most = limit.load() ? fmt::format(", limit {}", limit.load()) : "";
    return fmt::format("[Storage] out of memory: requested {} bytes, live {}, cached {}{}", bytes, live(), cached(),
                       most);
  }
};

Storage::Storage() : impl_(new Impl) {}

void Storage::lock() { impl_->lock_all(); }
void Storage::unlock() { impl_->unlock_all(); }

Storage& Storage::cpu() { return ProcessWide<Storage>::get(); }

void* Storage::allocate(size_t bytes) {
  if (void* block = try_allocate(bytes)) return block;
  throw_memory_error([&] { return impl_->refusal(bytes); });
}

void* Storage::try_allocate(size_t bytes) noexcept {
  if (bytes >= (size_t(1) << 48)) return nullptr;
  size_t rounded = block_bytes(bytes);
  if (!impl_->count(impl_->handed_out(bytes), rounded)) return nullptr;
  if constexpr (guards_pages) {
    void* block = guarded_allocate(bytes);
    if (!block) Impl::subtract(impl_->handed_out(bytes), rounded);
    return block;
  }
  if (bytes <= small_limit) {
    void* block = pool_try_allocate(bytes);
    if (!block) Impl::subtract(impl_->small, rounded);
    return block;
  }
  if (cache_blocks) {
    FreeList& list = impl_->lists[class_of(bytes)];
    std::lock_guard lock(list.lock);
    list.asked = impl_->made.load(std::memory_order_relaxed);
    if (Free* f = list.head) {
      list.head = f->next;
      Impl::subtract(impl_->kind_of(rounded).cached, rounded);
      return f;
    }
  }
  if (rounded > carve_limit) impl_->make_way(rounded);
  void* block = impl_->fresh(rounded);
  if (!block) {
    impl_->refused();
    block = impl_->fresh(rounded);
  }
  if (!block) Impl::subtract(impl_->large, rounded);
  return block;
}

void* Storage::from_system(size_t alignment, size_t bytes) noexcept {
  void* block = std::aligned_alloc(alignment, bytes);
  if (block) return block;
  impl_->refused();
  return std::aligned_alloc(alignment, bytes);
}

void Storage::free(void* block, size_t bytes) noexcept {
  size_t rounded = block_bytes(bytes);
  Impl::subtract(impl_->handed_out(bytes), rounded);
  if constexpr (guards_pages) return guarded_free(block);
  if (bytes <= small_limit) return pool_free(block, bytes);
  Kind& kind = impl_->kind_of(rounded);
  if (!cache_blocks || (rounded > carve_limit && kind.cached.load(std::memory_order_relaxed) + rounded >
                                                     impl_->most_cached.load(std::memory_order_relaxed))) {
    Impl::subtract(kind.reserved, rounded);
    return std::free(block);
  }
  FreeList& list = impl_->lists[class_of(bytes)];
  auto* f = static_cast<Free*>(block);
  Impl::add(kind.cached, rounded);
  std::lock_guard lock(list.lock);
  f->next = list.head;
  list.head = f;
}

void Storage::trim() noexcept { impl_->give_back_until(0); }

void Storage::set_limit(size_t bytes) noexcept { impl_->limit.store(bytes, std::memory_order_relaxed); }

StorageStats Storage::stats() const noexcept {
  return {.live = impl_->live(),
          .cached = impl_->cached(),
          .reserved = impl_->carved.reserved.load(std::memory_order_relaxed) +
                      impl_->whole.reserved.load(std::memory_order_relaxed) +
                      impl_->small.load(std::memory_order_relaxed),
          .peak = impl_->peak.load(std::memory_order_relaxed)};
}

}  // namespace kaon
