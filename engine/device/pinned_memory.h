// PinnedMemory: page-locked memory of the host, which a GPU copies to and from by itself.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "kaon/engine/device/backend.h"
#include "kaon/engine/device/stream_order.h"

namespace kaon::engine {

// Pinning memory costs more than copying it, so all blocks are kept; sizes are powers of two. Thread safety: any
// thread.
class PinnedMemory {
 public:
  PinnedMemory(DeviceDriver& driver, StreamOrder& order) : driver_(driver), order_(order) {}

  // Null when the host has no memory left to pin. Throws DeviceError when the GPU has failed.
  void* take(size_t bytes);
  // `until`: a copy may use the block up to this point.
  void give(void* block, size_t bytes, StreamPoint until = {}) noexcept;
  void trim() noexcept;  // gives unused blocks back to the system

 private:
  struct Free {
    void* block;
    StreamPoint until;
  };
  DeviceDriver& driver_;
  StreamOrder& order_;
  std::mutex mutex_;
  std::map<size_t, std::vector<Free>> free_;  // by size
};

}  // namespace kaon::engine
