#include "kaon/engine/device/stream_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <new>

#include "kaon/engine/error.h"

namespace kaon::engine {

size_t StreamPool::block_bytes(size_t bytes) noexcept {
  constexpr size_t least = 512;
  if (bytes <= least) return least;
  const size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

// Prefers a block that only this stream used: the one freed last, which is still cached and gives a loop the same
// addresses in each iteration. Else the one freed first, whose uses end soonest.
void* StreamPool::take_cached(std::deque<Free>& blocks, uint32_t stream) {
  const auto at_once = [&](const Free& f) {
    return std::all_of(f.uses.begin(), f.uses.end(), [&](StreamPoint p) { return p.stream == stream; });
  };
  const auto own = std::find_if(blocks.rbegin(), blocks.rend(), at_once);
  const auto chosen = own == blocks.rend() ? blocks.begin() : std::prev(own.base());
  for (const StreamPoint& p : chosen->uses) order_.wait(stream, p);
  void* block = chosen->block;
  blocks.erase(chosen);
  return block;
}

void* StreamPool::allocate(size_t bytes, uint32_t stream) {
  const size_t size = block_bytes(bytes);
  std::lock_guard lock(mutex_);
  void* block = nullptr;
  if (limit_ == 0 || stats_.live + size <= limit_) {
    if (const auto found = cached_.find(size); found != cached_.end() && !found->second.empty()) {
      block = take_cached(found->second, stream);
      stats_.cached -= size;
    } else if (!(block = memory_.allocate(size))) {
      give_back_all();
      block = memory_.allocate(size);
    }
  }
  if (!block) {
    throw MemoryError(fmt::format("requested {} bytes of device memory; live {}, cached {}, limit {}", bytes,
                                  stats_.live, stats_.cached, limit_ ? fmt::format("{}", limit_) : "none"));
  }
  stats_.live += size;
  stats_.reserved = stats_.live + stats_.cached;
  stats_.peak = std::max(stats_.peak, stats_.live);
  return block;
}

void StreamPool::free(void* block, size_t bytes, std::span<const StreamPoint> uses) noexcept {
  const size_t size = block_bytes(bytes);
  std::lock_guard lock(mutex_);
  stats_.live -= size;
  try {
    Free f{block, {}};
    for (const StreamPoint& p : uses) {
      if (p.sequence > 0) f.uses.push_back(p);
    }
    cached_[size].push_back(std::move(f));
    stats_.cached += size;
  } catch (const std::bad_alloc&) {  // no host memory to keep it in the list
    memory_.free(block);
    stats_.reserved = stats_.live + stats_.cached;
  }
}

// The device frees memory after the launched work, so no wait is needed.
void StreamPool::give_back_all() noexcept {
  for (auto& [size, blocks] : cached_) {
    for (const Free& f : blocks) memory_.free(f.block);
  }
  cached_.clear();
  stats_.cached = 0;
  stats_.reserved = stats_.live;
}

void StreamPool::trim() noexcept {
  std::lock_guard lock(mutex_);
  give_back_all();
}

void StreamPool::set_limit(size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

StorageStats StreamPool::stats() const noexcept {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace kaon::engine
