// Copies and fills. When host memory is read or written is what CUDA allows and a program may least expect: pinned
// memory when the command runs, other memory before the call returns.
#include <fmt/format.h>

#include <cstring>

#include "device.h"
#include "memory.h"

using namespace kaon_emulator;

namespace {

enum class Kind { device, pinned, pageable };

// Complains and returns false where the range is not one piece of memory.
bool classify(const void* pointer, size_t bytes, const char* call, Kind& kind) {
  bool is_wrong = false;
  const Block* block = Memory::get().find(pointer, bytes, is_wrong);
  if (is_wrong) {
    Emulator::get().complain(fmt::format("{}: {} bytes at {} are not inside one block", call, bytes, pointer));
    return false;
  }
  kind = !block ? Kind::pageable : block->device < 0 ? Kind::pinned : Kind::device;
  return true;
}

bool is_allowed(cudaMemcpyKind kind, Kind to, Kind from) {
  const bool to_device = to == Kind::device, from_device = from == Kind::device;
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle, bool waits) {
  std::unique_lock lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  if (bytes == 0) return cudaSuccess;
  Kind to_kind, from_kind;
  if (!classify(to, bytes, "cudaMemcpy, target", to_kind) || !classify(from, bytes, "cudaMemcpy, source", from_kind)) {
    return failed(cudaErrorInvalidValue);
  }
  if (!is_allowed(kind, to_kind, from_kind)) return failed(cudaErrorInvalidMemcpyDirection);
  const bool is_pageable = to_kind == Kind::pageable || from_kind == Kind::pageable;
  if (stream->capture && (waits || is_pageable)) {
    stream->capture->is_invalid = true;
    return failed(cudaErrorStreamCaptureUnsupported);
  }
  if (waits) {
    if (error = forbid_capture(); error != cudaSuccess) return failed(error);
  }
  std::function<void()> work = [=] { std::memmove(to, from, bytes); };
  if (from_kind == Kind::pageable) {
    auto staged =
        std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    work = [=] { std::memcpy(to, staged->data(), bytes); };
  }
  error = enqueue(stream, std::move(work));
  if (error == cudaSuccess && (waits || to_kind == Kind::pageable)) {
    stream->device->wait(lock, stream);
    error = stream->device->error;
  }
  return failed(error);
}

cudaError_t fill(void* to, int value, size_t bytes, cudaStream_t handle) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  if (bytes == 0) return cudaSuccess;
  Kind kind;
  if (!classify(to, bytes, "cudaMemset", kind) || kind == Kind::pageable) return failed(cudaErrorInvalidValue);
  return failed(enqueue(stream, [=] { std::memset(to, value, bytes); }));
}

}  // namespace

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy(to, from, bytes, kind, nullptr, true);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, from, bytes, kind, stream, false);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  return copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream, false);
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) { return fill(to, value, bytes, nullptr); }
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return fill(to, value, bytes, stream);
}
