#include "kaon/engine/device/pinned_memory.h"

#include <algorithm>
#include <bit>
#include <new>

#include "kaon/engine/error.h"

namespace kaon::engine {
namespace {
size_t block_bytes(size_t bytes) { return std::bit_ceil(std::max<size_t>(bytes, 4096)); }
}  // namespace

void* PinnedMemory::take(size_t bytes) {
  const size_t size = block_bytes(bytes);
  {
    std::lock_guard lock(mutex_);
    std::vector<Free>& blocks = free_[size];
    for (Free& f : blocks) {
      if (!order_.is_done(f.until)) continue;
      void* block = f.block;
      f = blocks.back();
      blocks.pop_back();
      return block;
    }
  }
  void* block = driver_.allocate_pinned(size);
  if (!block) {
    trim();
    block = driver_.allocate_pinned(size);
  }
  return block;
}

void PinnedMemory::give(void* block, size_t bytes, StreamPoint until) noexcept {
  std::lock_guard lock(mutex_);
  try {
    free_[block_bytes(bytes)].push_back({block, until});
  } catch (const std::bad_alloc&) {  // no memory to keep it
    driver_.free_pinned(block);
  }
}

void PinnedMemory::trim() noexcept {
  std::lock_guard lock(mutex_);
  for (auto& [size, blocks] : free_) {
    std::erase_if(blocks, [&](const Free& f) {
      try {
        if (!order_.is_done(f.until)) return false;
      } catch (const DeviceError&) {  // the GPU has failed: no copy runs
      }
      driver_.free_pinned(f.block);
      return true;
    });
  }
}

}  // namespace kaon::engine
