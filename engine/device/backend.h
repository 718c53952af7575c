// The interfaces of a device other than the CPU. The CUDA backend implements these and is opened on demand.
#pragma once

#include <memory>
#include <string>

#include "kaon/engine/device.h"
#include "kaon/engine/device/stream.h"
#include "kaon/engine/run_context.h"

namespace kaon::engine {

// Allocates a device's memory. Thread safety: any thread.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* allocate(size_t bytes) = 0;     // null when there is none
  virtual void free(void* block) noexcept = 0;  // waits for work that has been launched
};

// Work that a device has captured, to be launched as a whole again and again, with the addresses that it was captured
// with. Thread safety: one thread at a time; may be destroyed while it runs.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  virtual void launch(Stream& stream) = 0;
};

// One device's driver. Thread safety: any thread; copy() as its stream.
class DeviceDriver : public DeviceMemory {
 public:
  virtual std::string name() const = 0;  // "NVIDIA H200"
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // A Stream for one that the program made, a cudaStream_t, which must outlive the result.
  virtual std::unique_ptr<Stream> borrow_stream(void* native) = 0;
  // Launches a copy between memory of this device and of the host, or within either. Host memory that is not pinned may
  // block the caller until it has been read.
  virtual void copy(void* to, const void* from, size_t bytes, Stream& stream) = 0;
  virtual void* allocate_pinned(size_t bytes) = 0;  // of the host; null when there is none
  virtual void free_pinned(void* block) noexcept = 0;
  // Captures, without running it, what `work` launches on the stream that it gets, which is its own. Other threads may
  // launch at the same time. Throws what `work` throws, and DeviceError when some of it cannot be captured.
  virtual std::unique_ptr<CapturedWork> capture(FunctionRef<void(Stream&)> work) = 0;
  // Why kernels cannot be compiled for this device while the program runs; empty when they can.
  virtual std::string why_no_compiler() = 0;
  // An NVTX range for profilers: until end_range() this thread launches on this device under this name.
  virtual void begin_range(const char* name) noexcept = 0;
  virtual void end_range() noexcept = 0;
};

// A kind of device. Thread safety: any thread.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual int device_count() = 0;
  virtual void allow_tf32(bool allowed) = 0;
  virtual bool tf32_allowed() = 0;
  virtual std::unique_ptr<DeviceDriver> open(int index) = 0;  // throws DeviceError
};

// The CUDA library's, which is opened at the first of these calls; null without it or without a driver. And how many
// devices it has, and why there is none (empty otherwise). Thread safety: any thread.
Backend* gpu_backend();
int gpu_backend_count();
const char* why_no_gpu_backend();

// Opened at the first call, and kept as long as the process. Throws DeviceError. Thread safety: any thread.
DeviceDriver& gpu_driver(int index);

// A function that the CUDA library exports; null without it. Thread safety: any thread.
void* gpu_library_function(const char* name);

// Throws DeviceError when `device` does not exist, naming it and how many there are.
void check_device(Device device, const char* op);

}  // namespace kaon::engine
