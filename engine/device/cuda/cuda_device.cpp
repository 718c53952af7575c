#include "kaon/engine/device/cuda/cuda_device.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include "kaon/engine/device/cuda/nvrtc.h"
#include "kaon/engine/device/cuda/tf32.h"
#include "kaon/engine/error.h"

namespace kaon::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears an error that is not sticky: it is thrown here
  const std::string text =
      fmt::format("[{}] CUDA: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorMemoryAllocation) throw MemoryError(text);
  throw DeviceError(text);
}

cudaStream_t native(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

namespace {

class CudaEvent final : public StreamEvent {
 public:
  CudaEvent(EventPool& pool, cudaStream_t stream) : pool_(pool), event_(pool.take()) {
    if (const cudaError_t status = cudaEventRecord(event_, stream); status != cudaSuccess) {
      pool_.give(event_);
      check(status, "event");
    }
  }
  ~CudaEvent() override { pool_.give(event_); }
  bool is_done() override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    check(status, "device");
    return true;
  }
  void wait() override { check(cudaEventSynchronize(event_), "device"); }
  double seconds_since(StreamEvent& earlier) override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, static_cast<CudaEvent&>(earlier).event_, event_), "event");
    return double(milliseconds) / 1e3;
  }
  cudaEvent_t get() const { return event_; }

 private:
  EventPool& pool_;
  const cudaEvent_t event_;
};

struct Call {
  void (*work)(void*) noexcept;
  void* argument;
};

}  // namespace

cudaEvent_t EventPool::take() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      cudaEvent_t event = idle_.back();
      idle_.pop_back();
      return event;
    }
  }
  const DeviceScope device(device_);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags_), "event");
  return event;
}

// Events are never destroyed, like the device.
void EventPool::give(cudaEvent_t event) noexcept {
  std::lock_guard lock(mutex_);
  idle_.push_back(event);
}

CudaStream::CudaStream(int device, Events& events) : device_(device), events_(events) {
  const DeviceScope scope(device);
  // not synchronized with the default stream, which other libraries in the process may use
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
}

CudaStream::~CudaStream() {
  if (is_own_) cudaStreamDestroy(stream_);
}

IntrusivePtr<StreamEvent> CudaStream::record() {
  const DeviceScope scope(device_);
  return IntrusivePtr<StreamEvent>(new CudaEvent(events_.order, stream_));
}

IntrusivePtr<StreamEvent> CudaStream::record_time() {
  const DeviceScope scope(device_);
  return IntrusivePtr<StreamEvent>(new CudaEvent(events_.time, stream_));
}

void CudaStream::wait(StreamEvent& event) {
  check(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).get(), 0), "stream");
}

// Not cudaLaunchHostFunc, whose function is not called when the device has failed.
void CudaStream::call(void (*work)(void*) noexcept, void* argument) {
  auto made = std::make_unique<Call>(work, argument);
  check(cudaStreamAddCallback(
            stream_,
            [](cudaStream_t, cudaError_t, void* data) {
              const std::unique_ptr<Call> call(static_cast<Call*>(data));
              call->work(call->argument);
            },
            made.get(), 0),
        "stream");
  made.release();
}

std::string CudaDriver::name() const {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index_), "device");
  return properties.name;
}

std::unique_ptr<Stream> CudaDriver::make_stream() { return std::make_unique<CudaStream>(index_, events_); }

std::unique_ptr<Stream> CudaDriver::borrow_stream(void* native) {
  return std::make_unique<CudaStream>(index_, events_, static_cast<cudaStream_t>(native));
}

void CudaDriver::copy(void* to, const void* from, size_t bytes, Stream& stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)), "copy");
}

void* CudaDriver::allocate(size_t bytes) {
  const DeviceScope scope(index_);
  void* block = nullptr;
  const cudaError_t status = cudaMalloc(&block, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(status, "allocate");
  return block;
}

void CudaDriver::free(void* block) noexcept { cudaFree(block); }

void* CudaDriver::allocate_pinned(size_t bytes) {
  void* block = nullptr;
  const cudaError_t status = cudaHostAlloc(&block, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(status, "allocate");
  return block;
}

void CudaDriver::free_pinned(void* block) noexcept { cudaFreeHost(block); }

std::string CudaDriver::why_no_compiler() { return cuda::why_no_compiler(index_); }

void CudaDriver::begin_range(const char* name) noexcept {
  cudaSetDevice(index_);  // a failure of the device is reported at the launch
  nvtxRangePushA(name);
}
void CudaDriver::end_range() noexcept { nvtxRangePop(); }

namespace {

class CudaBackend final : public Backend {
 public:
  CudaBackend() { check(cudaGetDeviceCount(&count_), "gpu_count"); }
  int device_count() override { return count_; }
  void allow_tf32(bool allowed) override {
    cuda::tf32_allowed.store(allowed, std::memory_order_relaxed);
  }  // orders nothing
  bool tf32_allowed() override { return cuda::tf32_allowed.load(std::memory_order_relaxed); }
  std::unique_ptr<DeviceDriver> open(int index) override { return std::make_unique<CudaDriver>(index); }

 private:
  int count_ = 0;
};

}  // namespace
}  // namespace kaon::cuda

// Throws an exception whose text explains why there is no GPU.
extern "C" __attribute__((visibility("default"))) kaon::engine::Backend* kaon_cuda_backend() {
  static auto* backend = new kaon::cuda::CudaBackend;
  return backend;
}
