// Libraries of kernels that NVRTC has compiled: loading them, and launching with an array of arguments.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "device.h"
#include "kaon_emulator/launch.h"
#include "kaon_emulator/rtc.h"

using namespace kaon_emulator;

struct CUkern_st {
  const RtcKernel* table;
  std::shared_ptr<void> object;  // open as long as a launch is to run
  std::set<int> devices;         // that have it: as with CUDA, from the first time that it is used there
};
struct CUlib_st {
  std::shared_ptr<void> object;
  std::map<std::string, CUkern_st> kernels;  // those asked for
};

namespace {

std::set<const void*>& kernels() {
  static auto* kernels = new std::set<const void*>;
  return *kernels;
}

// The kernel behind a handle, on this device; null when there is none. Under the mutex.
CUkern_st* loaded(const void* function, int device) {
  const auto found = kernels().find(function);
  if (found == kernels().end()) return nullptr;
  auto* kernel = static_cast<CUkern_st*>(const_cast<void*>(*found));
  if (kernel->devices.insert(device).second) ++Emulator::get().kernel_loads;
  return kernel;
}

// Null when it cannot be loaded. From a file, which dlopen() knows by its name: one not used before.
std::shared_ptr<void> open(const char* bytes, size_t size) {
  std::string name = (std::filesystem::temp_directory_path() / "kaon_kernels_XXXXXX").string();
  const int file = mkstemp(name.data());
  if (file < 0) return nullptr;
  const bool is_written = write(file, bytes, size) == ssize_t(size);
  close(file);
  void* object = is_written ? dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!object) Emulator::get().complain(fmt::format("kernels cannot be loaded: {}", dlerror()));
  unlink(name.c_str());
  return object ? std::shared_ptr<void>(object, dlclose) : nullptr;
}

}  // namespace

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**, unsigned num_jit,
                                cudaLibraryOption*, void**, unsigned num_options) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  if (!library || !code || num_jit != 0 || num_options != 0) return failed(cudaErrorInvalidValue);
  RtcImage image;
  std::memcpy(&image, code, sizeof image);
  if (std::memcmp(image.magic, RtcImage::expected_magic, sizeof image.magic) != 0) {
    return failed(cudaErrorInvalidKernelImage);
  }
  // This device is of architecture 9.0: it runs code for that, and what can still be compiled for it.
  const std::string architecture = image.architecture;
  const int version = std::atoi(architecture.c_str() + architecture.find('_') + 1);
  if (architecture.starts_with("sm_") ? version != 90 : version > 90) return failed(cudaErrorNoKernelImageForDevice);
  std::shared_ptr<void> object = open(static_cast<const char*>(code) + sizeof image, image.bytes);
  if (!object) return failed(cudaErrorInvalidKernelImage);
  *library = new CUlib_st{std::move(object), {}};
  return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  if (!library) return failed(cudaErrorInvalidResourceHandle);
  for (const auto& [name, kernel] : library->kernels) kernels().erase(&kernel);
  delete library;
  return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  if (!kernel || !library || !name) return failed(cudaErrorInvalidValue);
  const void* table = dlsym(library->object.get(), fmt::format("kaon_emulator_kernel_{}", name).c_str());
  if (!table) return failed(cudaErrorSymbolNotFound);
  auto& made = library->kernels[name];
  made = {static_cast<const RtcKernel*>(table), library->object, {}};
  kernels().insert(&made);
  *kernel = &made;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  Device* device = current_device(error);
  if (!device) return failed(error);
  if (!attributes) return failed(cudaErrorInvalidValue);
  if (!loaded(function, device->index)) return failed(cudaErrorInvalidDeviceFunction);
  return get_attributes(attributes);
}

// The arguments' values are copied now: theirs are the caller's variables.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  constexpr size_t alignment = alignof(std::max_align_t);
  CUkern_st kernel;
  {
    std::lock_guard lock(Emulator::get().mutex);
    const CUkern_st* found = loaded(function, caller().device);
    if (!found) return failed(cudaErrorInvalidDeviceFunction);
    kernel = *found;
  }
  std::vector<size_t> offsets;
  size_t bytes = 0;
  for (size_t i = 0; i < kernel.table->num_parameters; ++i) {
    offsets.push_back(bytes);
    bytes += (kernel.table->sizes[i] + alignment - 1) / alignment * alignment;
  }
  auto values = std::make_shared<std::vector<std::max_align_t>>(bytes / alignment + 1);
  auto copies = std::make_shared<std::vector<void*>>();
  std::vector<const void*> pointers;
  for (size_t i = 0; i < offsets.size(); ++i) {
    copies->push_back(reinterpret_cast<char*>(values->data()) + offsets[i]);
    std::memcpy(copies->back(), arguments[i], kernel.table->sizes[i]);
    if (kernel.table->are_pointers[i]) pointers.push_back(*static_cast<void**>(arguments[i]));
  }
  return launch(
      *config, [kernel, values, copies] { kernel.table->call(copies->data()); }, pointers);
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  const cudaLaunchConfig_t config{grid, block, shared_bytes, stream, nullptr, 0};
  return cudaLaunchKernelExC(&config, kernel, arguments);
}
