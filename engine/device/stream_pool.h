// StreamPool: memory of a device, reused in the order of its streams.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <span>

#include "kaon/engine/device/backend.h"
#include "kaon/engine/device/stream_order.h"
#include "kaon/engine/storage.h"

namespace kaon::engine {

// A block may be freed while launched work still uses it: free() takes the points after which no work does. The next
// user is ordered after these points, at no cost on the same stream. Sizes are rounded up to classes (four per
// doubling, at least 512 bytes). Thread safety: any thread.
class StreamPool {
 public:
  StreamPool(DeviceMemory& memory, StreamOrder& order) : memory_(memory), order_(order) {}
  ~StreamPool() { trim(); }  // the device has finished
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  // Allocates for later launches on `stream`. Gives cached memory back before it throws MemoryError (requested, live,
  // cached, limit).
  void* allocate(size_t bytes, uint32_t stream);
  void free(void* block, size_t bytes, std::span<const StreamPoint> uses) noexcept;  // `bytes` as allocated
  void trim() noexcept;                   // gives cached memory back to the device
  void set_limit(size_t bytes) noexcept;  // of live bytes; 0: none
  StorageStats stats() const noexcept;

  static size_t block_bytes(size_t bytes) noexcept;  // the size of the block for such a request

 private:
  struct Free {
    void* block;
    std::vector<StreamPoint> uses;
  };
  void* take_cached(std::deque<Free>& blocks, uint32_t stream);
  void give_back_all() noexcept;

  DeviceMemory& memory_;
  StreamOrder& order_;
  mutable std::mutex mutex_;
  std::map<size_t, std::deque<Free>> cached_;  // by size, the one freed first in front
  StorageStats stats_;
  size_t limit_ = 0;
};

}  // namespace kaon::engine
