#include "kaon/engine/device/cuda/nvrtc.h"

#include <fmt/format.h>
#include <nvrtc.h>

#include <memory>
#include <mutex>
#include <vector>

#include "kaon/engine/device/cuda/check.h"
#include "kaon/engine/device/cuda/shared_library.h"
#include "kaon/engine/error.h"

namespace kaon::cuda {
namespace {

struct Nvrtc {
  SharedLibrary library{"fused kernels", {"libnvrtc.so.13", "libnvrtc.so.12"}};
  decltype(&::nvrtcVersion) version = library.function("nvrtcVersion");
  decltype(&::nvrtcGetErrorString) error_string = library.function("nvrtcGetErrorString");
  decltype(&::nvrtcCreateProgram) create = library.function("nvrtcCreateProgram");
  decltype(&::nvrtcDestroyProgram) destroy = library.function("nvrtcDestroyProgram");
  decltype(&::nvrtcCompileProgram) compile = library.function("nvrtcCompileProgram");
  decltype(&::nvrtcGetCUBINSize) code_size = library.function("nvrtcGetCUBINSize");
  decltype(&::nvrtcGetCUBIN) code = library.function("nvrtcGetCUBIN");
  decltype(&::nvrtcGetProgramLogSize) log_size = library.function("nvrtcGetProgramLogSize");
  decltype(&::nvrtcGetProgramLog) log = library.function("nvrtcGetProgramLog");
};

const Nvrtc& nvrtc() {
  static const Nvrtc* library = new Nvrtc;
  return *library;
}

std::string architecture(int device) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "device");
  return fmt::format("sm_{}{}", major, minor);
}

struct Program {
  nvrtcProgram handle = nullptr;
  ~Program() {
    if (handle) nvrtc().destroy(&handle);
  }
  std::string log() const {
    size_t bytes = 0;
    if (nvrtc().log_size(handle, &bytes) != NVRTC_SUCCESS || bytes < 2) return {};
    std::string text(bytes, '\0');
    nvrtc().log(handle, text.data());
    text.resize(bytes - 1);  // without the final 0
    return text;
  }
};

void check_nvrtc(nvrtcResult result, const char* name, const Program& program) {
  if (result == NVRTC_SUCCESS) return;
  throw DeviceError(fmt::format("[{}] NVRTC: {}\n{}", name, nvrtc().error_string(result), program.log()));
}

}  // namespace

// A compiler older than the device does not support it.
const std::string& why_no_compiler(int device) {
  static std::mutex mutex;
  static auto* reasons = new std::vector<std::unique_ptr<const std::string>>;  // by device; null: not tried yet
  std::lock_guard lock(mutex);
  if (reasons->size() <= size_t(device)) reasons->resize(size_t(device) + 1);
  std::unique_ptr<const std::string>& reason = (*reasons)[size_t(device)];
  if (!reason) {
    std::string why;
    try {
      compile("extern \"C\" __global__ void nothing() {}", "gpu", device);
    } catch (const std::exception& e) {
      why = e.what();
    }
    reason = std::make_unique<const std::string>(std::move(why));
  }
  return *reason;
}

std::string compiler_name(int device) {
  int major = 0, minor = 0;
  check_nvrtc(nvrtc().version(&major, &minor), "nvrtc", Program());
  return fmt::format("NVRTC {}.{} {}", major, minor, architecture(device));
}

// Multiplications and additions are contracted, as by nvcc. 186: as in cmake/KaonCuda.cmake.
std::string compile(const std::string& source, const char* name, int device) {
  const std::string arch = "--gpu-architecture=" + architecture(device);
  const char* const options[] = {arch.c_str(), "--std=c++20", "--device-as-default-execution-space",
                                 "--diag-suppress=186"};
  Program program;
  check_nvrtc(nvrtc().create(&program.handle, source.c_str(), name, 0, nullptr, nullptr), name, program);
  check_nvrtc(nvrtc().compile(program.handle, 4, options), name, program);
  size_t bytes = 0;
  check_nvrtc(nvrtc().code_size(program.handle, &bytes), name, program);
  std::string code(bytes, '\0');
  check_nvrtc(nvrtc().code(program.handle, code.data()), name, program);
  return code;
}

}  // namespace kaon::cuda
