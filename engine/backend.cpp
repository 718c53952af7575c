#include "kaon/engine/backend.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "kaon/engine/error.h"

namespace kaon {
namespace {

// libkaon_cuda.so is opened at the first question about GPUs, so a CPU process never loads CUDA. It exports
// kaon_cuda_backend() (this) and kaon_cuda_bind_kernels() (called by ops/).
struct CudaLibrary {
  Backend* backend = nullptr;
  std::string reason;

  CudaLibrary() {
    void* library = dlopen("libkaon_cuda.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      reason = "libkaon_cuda.so is not installed";
      return;
    }
    auto make = reinterpret_cast<Backend* (*)()>(dlsym(library, "kaon_cuda_backend"));
    if (!make) {
      reason = "libkaon_cuda.so does not export kaon_cuda_backend";
      return;
    }
    try {
      backend = make();
    } catch (const std::exception& e) {
      reason = e.what();
    }
  }
};

CudaLibrary& cuda() {
  static auto* library = new CudaLibrary;
  return *library;
}

}  // namespace

int gpu_count() { return cuda().backend ? cuda().backend->device_count() : 0; }
const char* gpu_unavailable_reason() { return cuda().reason.c_str(); }

void check_device(Device device, const char* op) {
  if (device.type == DeviceType::cpu) return;
  int n = gpu_count();
  if (int(device.index) >= n) {
    throw DeviceError(fmt::format("[{}] device {} does not exist: this machine has {} usable GPUs{}{}", op,
                                  device.str(), n, n == 0 ? ": " : "", n == 0 ? gpu_unavailable_reason() : ""));
  }
}

}  // namespace kaon
