// A CUDA device behind the interfaces of engine/device/backend.h and engine/device/stream.h.
#pragma once

#include <mutex>
#include <vector>

#include "kaon/engine/device/backend.h"
#include "kaon/engine/device/cuda/check.h"

namespace kaon::cuda {

// Makes a device current for this thread while this object exists.
class DeviceScope {
 public:
  explicit DeviceScope(int index) {
    check(cudaGetDevice(&before_), "device");
    if (before_ != index) check(cudaSetDevice(index), "device");
  }
  ~DeviceScope() { cudaSetDevice(before_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
};

// Making an event costs more than recording one, so they are kept. Thread safety: any thread.
class EventPool {
 public:
  EventPool(int device, unsigned flags) : device_(device), flags_(flags) {}
  cudaEvent_t take();
  void give(cudaEvent_t event) noexcept;

 private:
  const int device_;
  const unsigned flags_;  // of cudaEventCreateWithFlags
  std::mutex mutex_;
  std::vector<cudaEvent_t> idle_;
};

// The events of a device, for order and for times.
struct Events {
  explicit Events(int device) : order(device, cudaEventDisableTiming), time(device, cudaEventDefault) {}
  EventPool order, time;
};

class CudaStream final : public Stream {
 public:
  CudaStream(int device, Events& events);
  CudaStream(int device, Events& events, cudaStream_t borrowed)
      : device_(device), events_(events), stream_(borrowed), is_own_(false) {}
  ~CudaStream() override;
  IntrusivePtr<StreamEvent> record() override;
  IntrusivePtr<StreamEvent> record_time() override;
  void wait(StreamEvent& event) override;
  void call(void (*work)(void*) noexcept, void* argument) override;
  void* native() override { return stream_; }

 private:
  const int device_;
  Events& events_;
  cudaStream_t stream_ = nullptr;
  const bool is_own_ = true;
};

class CudaDriver final : public DeviceDriver {
 public:
  explicit CudaDriver(int index) : index_(index), events_(index) {}
  std::string name() const override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Stream> borrow_stream(void* native) override;
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override;
  void* allocate(size_t bytes) override;
  void free(void* block) noexcept override;
  void* allocate_pinned(size_t bytes) override;
  void free_pinned(void* block) noexcept override;
  std::unique_ptr<CapturedWork> capture(FunctionRef<void(Stream&)> work) override;
  std::string why_no_compiler() override;
  void begin_range(const char* name) noexcept override;
  void end_range() noexcept override;

 private:
  const int index_;
  Events events_;
};

}  // namespace kaon::cuda
