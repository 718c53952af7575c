// Errors and devices: what they are called and how large they are.
#include <cstdio>

#include "device.h"

using namespace kaon_emulator;

namespace {

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
#define ROW(name, text) \
  ErrorText { name, #name, text }
constexpr ErrorText error_texts[] = {
    ROW(cudaSuccess, "no error"),
    ROW(cudaErrorInvalidValue, "invalid argument"),
    ROW(cudaErrorMemoryAllocation, "out of memory"),
    ROW(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ROW(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ROW(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ROW(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ROW(cudaErrorInvalidDevice, "invalid device ordinal"),
    ROW(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    ROW(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
    ROW(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ROW(cudaErrorSymbolNotFound, "named symbol not found"),
    ROW(cudaErrorNotReady, "device not ready"),
    ROW(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ROW(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ROW(cudaErrorLaunchFailure, "unspecified launch failure"),
    ROW(cudaErrorNotPermitted, "operation not permitted"),
    ROW(cudaErrorNotSupported, "operation not supported"),
    ROW(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ROW(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    ROW(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    ROW(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    ROW(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ROW(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    ROW(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    ROW(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread"),
    ROW(cudaErrorGraphExecUpdateFailure, "the graph update was not performed"),
};
#undef ROW

const ErrorText* find(cudaError_t error) {
  for (const ErrorText& row : error_texts) {
    if (row.error == error) return &row;
  }
  return nullptr;
}

constexpr int multiprocessors = 132, l2_bytes = 50 << 20;

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* row = find(error);
  return row ? row->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* row = find(error);
  return row ? row->text : "unrecognized error code";
}

// A failed device's error does not go away.
cudaError_t cudaGetLastError() {
  const cudaError_t last = cudaPeekAtLastError();
  caller().last_error = cudaSuccess;
  return last;
}
cudaError_t cudaPeekAtLastError() {
  std::lock_guard lock(Emulator::get().mutex);
  const Device* device = Emulator::get().device(caller().device);
  return device && device->error != cudaSuccess ? device->error : caller().last_error;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = Emulator::get().device_count();
  return failed(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
  *device = caller().device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  std::lock_guard lock(Emulator::get().mutex);
  if (caller().is_in_callback) return failed(cudaErrorNotPermitted);
  if (!Emulator::get().device(device)) return failed(cudaErrorInvalidDevice);
  caller().device = device;
  return failed(Emulator::get().device(device)->error);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!Emulator::get().device(device)) return failed(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Kaon's CUDA emulator");
  {
    std::lock_guard lock(Emulator::get().mutex);
    properties->totalGlobalMem = Emulator::get().memory_limit;
  }
  const auto attribute = [device](cudaDeviceAttr which) {
    int value = 0;
    cudaDeviceGetAttribute(&value, which, device);
    return value;
  };
  properties->sharedMemPerBlock = size_t(attribute(cudaDevAttrMaxSharedMemoryPerBlock));
  properties->sharedMemPerBlockOptin = size_t(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  properties->sharedMemPerMultiprocessor = size_t(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  properties->regsPerBlock = 65536;
  properties->warpSize = attribute(cudaDevAttrWarpSize);
  properties->maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock);
  const int threads[] = {1024, 1024, 64}, blocks[] = {0x7fffffff, 65535, 65535};
  for (int i = 0; i < 3; ++i) {
    properties->maxThreadsDim[i] = threads[i];
    properties->maxGridSize[i] = blocks[i];
  }
  properties->major = attribute(cudaDevAttrComputeCapabilityMajor);
  properties->minor = attribute(cudaDevAttrComputeCapabilityMinor);
  properties->multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount);
  properties->maxThreadsPerMultiProcessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  properties->maxBlocksPerMultiProcessor = attribute(cudaDevAttrMaxBlocksPerMultiprocessor);
  properties->l2CacheSize = attribute(cudaDevAttrL2CacheSize);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!Emulator::get().device(device)) return failed(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 << 10; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 << 10; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 228 << 10; return cudaSuccess;
    case cudaDevAttrWarpSize: *value = 32; return cudaSuccess;
    case cudaDevAttrMultiProcessorCount: *value = multiprocessors; return cudaSuccess;
    case cudaDevAttrL2CacheSize: *value = l2_bytes; return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; return cudaSuccess;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = 32; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; return cudaSuccess;
  }
  return failed(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!Emulator::get().device(device) || !Emulator::get().device(peer)) return failed(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (!Emulator::get().device(peer) || peer == caller().device) return failed(cudaErrorInvalidDevice);
  return cudaSuccess;
}
