#include "kaon/engine/buffer/gpu_memory.h"

#include "kaon/engine/buffer/device_launch.h"

namespace kaon::engine {

GpuMemory::~GpuMemory() {
  if (lent) {
    give_lent_back();
  } else {
    free();
  }
}

void GpuMemory::give_lent_back() noexcept {
  for (const StreamPoint& point : use.points()) {
    try {
      gpu.when_done(point, [owner = lent](const std::exception_ptr&) {});
    } catch (...) {  // no memory for the request
      try {
        gpu.wait(point);
      } catch (...) {  // after the failure of the GPU nothing runs there
      }
    }
  }
}

void* GpuMemory::allocate(size_t size) {
  const DeviceLaunch* launch = DeviceLaunch::current();
  if (!launch) throw StateError("[gpu] the memory of an array on " + gpu.device.str() + " is not there for the host");
  block = gpu.memory.allocate(size, launch->stream_number());
  bytes = size;
  return block;
}

void GpuMemory::free() noexcept {
  if (!block || lent) return;
  const std::vector<StreamPoint> points = use.points();
  gpu.memory.free(std::exchange(block, nullptr), bytes, points);
}

}  // namespace kaon::engine
