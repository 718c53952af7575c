#include "kaon/engine/device/backend.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <vector>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/error.h"

namespace kaon::engine {
namespace {

// libkaon_cuda.so, or its replacement, is opened at the first call that concerns GPUs, so a CPU process never loads
// CUDA. It exports kaon_cuda_backend().
struct CudaLibrary {
  void* library = nullptr;
  Backend* backend = nullptr;
  int count = 0;
  std::string reason;
  std::mutex mutex;
  std::vector<std::unique_ptr<DeviceDriver>> drivers;  // under mutex

  CudaLibrary() {
    const char* other = std::getenv("KAON_CUDA_LIBRARY");
    const char* name = other ? other : "libkaon_cuda.so";
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      reason = fmt::format("{} cannot be loaded: {}", name, dlerror());
      return;
    }
    auto make = reinterpret_cast<Backend* (*)()>(dlsym(library, "kaon_cuda_backend"));
    if (!make) {
      reason = fmt::format("{} does not export kaon_cuda_backend", name);
      return;
    }
    try {
      backend = make();
      count = backend->device_count();
    } catch (const std::exception& e) {
      reason = e.what();
    }
  }
};

CudaLibrary& cuda() {
  static constinit MadeOnce<CudaLibrary> library;
  return library.get([] { return new CudaLibrary; });
}

}  // namespace

Backend* gpu_backend() { return cuda().backend; }
int gpu_backend_count() { return cuda().count; }
const char* why_no_gpu_backend() { return cuda().reason.c_str(); }

void* gpu_library_function(const char* name) { return cuda().library ? dlsym(cuda().library, name) : nullptr; }

DeviceDriver& gpu_driver(int index) {
  check_device(gpu(index), "gpu");
  std::lock_guard lock(cuda().mutex);
  auto& drivers = cuda().drivers;
  if (drivers.size() <= size_t(index)) drivers.resize(size_t(index) + 1);
  if (!drivers[size_t(index)]) drivers[size_t(index)] = cuda().backend->open(index);
  return *drivers[size_t(index)];
}

void check_device(Device device, const char* op) {
  if (device.type == DeviceType::cpu) return;
  const int n = gpu_backend_count();
  if (int(device.index) >= n) {
    throw DeviceError(fmt::format("[{}] device {} does not exist: this machine has {} usable GPUs{}{}", op,
                                  device.str(), n, n == 0 ? ": " : "", n == 0 ? why_no_gpu_backend() : ""));
  }
}

}  // namespace kaon::engine
