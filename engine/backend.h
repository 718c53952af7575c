// What a device other than the CPU has to provide. The CUDA backend implements these and is opened on demand.
#pragma once

#include "kaon/engine/device.h"

namespace kaon {

// A kind of device. Thread safety: any thread.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual int device_count() = 0;
};

// Number of usable GPUs; 0 without a driver, a GPU or the CUDA library. Thread safety: any thread.
int gpu_count();
// Why gpu_count() is 0; empty otherwise.
const char* gpu_unavailable_reason();

// Throws DeviceError when `device` does not exist, naming it and how many there are.
void check_device(Device device, const char* op);

}  // namespace kaon
