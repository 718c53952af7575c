// Streams, events, callbacks, and the launch of kernels on streams.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "device.h"
#include "kaon_emulator/launch.h"
#include "memory.h"

using namespace kaon_emulator;

struct CUevent_st {
  bool has_timing;
  std::shared_ptr<Moment> recorded;  // last
};

namespace {

std::set<cudaEvent_t>& events() {
  static auto* events = new std::set<cudaEvent_t>;
  return *events;
}

cudaError_t find_event(cudaEvent_t event) {
  return events().contains(event) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

// Code of the host, on a device's thread.
struct InCallback {
  DeviceAccess access{false};
  InCallback() { caller().is_in_callback = true; }
  ~InCallback() { caller().is_in_callback = false; }
};

// Whether a call that asks about a stream's or an event's progress may be made.
cudaError_t check_progress(const Capture* capture, cudaError_t captured) {
  if (!capture) return forbid_capture();
  for (const auto& c : Emulator::get().captures) {
    if (c.get() == capture) c->is_invalid = true;
  }
  return captured;
}

}  // namespace

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  Device* device = current_device(error);
  if (!device) return failed(error);
  *stream = device->add_stream().get();
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  if (!handle) return failed(cudaErrorInvalidResourceHandle);
  if (stream->capture) stream->capture->is_invalid = true;
  stream->device->remove_stream(handle);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  std::unique_lock lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  error = check_progress(stream->capture.get(), cudaErrorStreamCaptureUnsupported);
  if (error != cudaSuccess) return failed(error);
  stream->device->wait(lock, stream);
  return failed(stream->device->error);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  error = check_progress(stream->capture.get(), cudaErrorStreamCaptureUnsupported);
  if (error != cudaSuccess) return failed(error);
  return stream->done == stream->launched ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize() {
  std::unique_lock lock(Emulator::get().mutex);
  cudaError_t error;
  Device* device = current_device(error);
  if (!device) return failed(error);
  if (error = forbid_capture(); error != cudaSuccess) return failed(error);
  device->wait(lock);
  return failed(device->error);
}

// Within a capture the wait is an edge of the graph, and a stream that waits for one that captures joins it.
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  if (error = find_event(event); error != cudaSuccess) return failed(error);
  const std::shared_ptr<Moment> moment = event->recorded;
  if (!moment) return cudaSuccess;
  if (!moment->capture) {
    if (stream->capture) {
      stream->capture->is_invalid = true;
      return failed(cudaErrorStreamCaptureIsolation);
    }
    stream->device->push(*stream, {.work = [](cudaError_t) {}, .after = moment});
    return cudaSuccess;
  }
  if (stream->capture && stream->capture != moment->capture) {
    stream->capture->is_invalid = moment->capture->is_invalid = true;
    return failed(cudaErrorStreamCaptureMerge);
  }
  if (!stream->capture) {
    stream->capture = moment->capture;
    stream->capture->streams.push_back(stream);
  }
  for (size_t tail : moment->tails) {
    if (std::find(stream->tails.begin(), stream->tails.end(), tail) == stream->tails.end()) {
      stream->tails.push_back(tail);
    }
  }
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t call, void* data, unsigned) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  if (stream->capture) {
    stream->capture->is_invalid = true;
    return failed(cudaErrorStreamCaptureUnsupported);
  }
  const auto work = [=](cudaError_t status) {
    const InCallback scope;
    call(handle, status, data);
  };
  stream->device->push(*stream, {.work = work, .after = nullptr, .is_certain = true});
  return cudaSuccess;
}

// Not called on a failed device.
cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t call, void* data) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  return failed(enqueue(stream, [=] {
    const InCallback scope;
    call(data);
  }));
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  *event = new CUevent_st{!(flags & cudaEventDisableTiming), nullptr};
  events().insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  if (error = find_event(event); error != cudaSuccess) return failed(error);
  auto moment = std::make_shared<Moment>();
  if (stream->capture) {
    moment->capture = stream->capture;
    moment->tails = stream->tails;
  } else {
    const auto work = [moment](cudaError_t) {
      std::lock_guard lock(Emulator::get().mutex);
      moment->is_reached = true;
      moment->at = Clock::now();
    };
    stream->device->push(*stream, {.work = work, .after = nullptr, .is_certain = true});
  }
  event->recorded = std::move(moment);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  if (error = find_event(event); error != cudaSuccess) return failed(error);
  const Moment* moment = event->recorded.get();
  error = check_progress(moment ? moment->capture.get() : nullptr, cudaErrorCapturedEvent);
  if (error != cudaSuccess) return failed(error);
  return !moment || moment->is_reached ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::unique_lock lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  if (error = find_event(event); error != cudaSuccess) return failed(error);
  const std::shared_ptr<Moment> moment = event->recorded;
  error = check_progress(moment ? moment->capture.get() : nullptr, cudaErrorCapturedEvent);
  if (error != cudaSuccess) return failed(error);
  if (moment) Emulator::get().changed.wait(lock, [&] { return moment->is_reached; });
  current_device(error);
  return failed(error);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  for (cudaEvent_t event : {start, end}) {
    if (find_event(event) != cudaSuccess || !event->has_timing || !event->recorded) {
      return failed(cudaErrorInvalidResourceHandle);
    }
    if (!event->recorded->is_reached) return cudaErrorNotReady;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->recorded->at - start->recorded->at).count();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  if (error = find_event(event); error != cudaSuccess) return failed(error);
  events().erase(event);
  delete event;
  return cudaSuccess;
}

namespace kaon_emulator {

constexpr unsigned max_threads = 1024;
constexpr size_t max_shared_bytes = 48 * 1024;

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> body,
                   const std::vector<const void*>& pointers) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(config.stream, error);
  if (!stream) return failed(error);
  const dim3 grid = config.gridDim, block = config.blockDim;
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (threads == 0 || threads > max_threads || block.x > max_threads || block.y > max_threads || block.z > 64 ||
      uint64_t(grid.x) * grid.y * grid.z == 0 || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) {
    return failed(cudaErrorInvalidConfiguration);
  }
  if (config.dynamicSmemBytes > max_shared_bytes || config.numAttrs != 0) return failed(cudaErrorInvalidValue);
  for (const void* pointer : pointers) {
    bool is_wrong = false;
    if (!pointer || Memory::get().find(pointer, 1, is_wrong) || is_wrong) continue;  // past an end may be meant
    Emulator::get().complain(fmt::format("a kernel is given {}, which is memory of the host", pointer));
    stream->device->fail(cudaErrorIllegalAddress);
    return failed(cudaErrorIllegalAddress);
  }
  return failed(enqueue(stream, [device = stream->device, grid, block, body = std::move(body)] {
    device->run_kernel(grid, block, body);
  }));
}

cudaError_t get_attributes(cudaFuncAttributes* attributes) {
  *attributes = {};
  attributes->maxThreadsPerBlock = max_threads;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  return cudaSuccess;
}

cudaError_t set_attribute(cudaFuncAttribute, int) { return cudaSuccess; }

cudaError_t max_active_blocks(int* blocks, int threads, size_t) {
  if (threads <= 0) return failed(cudaErrorInvalidValue);
  *blocks = threads > int(max_threads) ? 0 : std::min(32, 2048 / threads);
  return cudaSuccess;
}

}  // namespace kaon_emulator
