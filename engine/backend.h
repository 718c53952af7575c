// What a device other than the CPU has to provide. The CUDA backend implements these and is opened on demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kaon/engine/device.h"

namespace kaon {

// Orders execution on a device: work with a lower sequence on the same stream has run before.
struct StreamPoint {
  uint32_t stream = 0;
  uint64_t sequence = 0;
};

// A queue of device work. An operation counts as finished for the engine when it is launched; order on the device
// is by stream and sequence. Thread safety: used by the device's launching thread only.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual StreamPoint point() const = 0;         // after what was launched so far
  virtual void wait_for(StreamPoint other) = 0;  // later launches run after `other`
  virtual bool is_done(StreamPoint point) = 0;   // throws DeviceError when the device has failed
};

// A kind of device. Thread safety: any thread.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual int device_count() = 0;
  virtual void* allocate(int device, size_t bytes) = 0;  // throws MemoryError
  virtual void free(int device, void* block, StreamPoint last_use) noexcept = 0;
  virtual Stream& compute_stream(int device) = 0;
};

// Number of usable GPUs; 0 without a driver, a GPU or the CUDA library. Thread safety: any thread.
int gpu_count();
// Why gpu_count() is 0; empty otherwise.
const char* gpu_unavailable_reason();

// Throws DeviceError when `device` does not exist, naming it and how many there are.
void check_device(Device device, const char* op);

}  // namespace kaon
