// Device: where an array lives and where an operator runs; and which GPUs there are.
#pragma once

#include <cstdint>
#include <string>

#include "kaon/engine/api.h"

namespace KAON_API kaon {

enum class DeviceType : uint8_t { cpu = 1, gpu = 2 };  // the numbers that MXNet's files use

// A value: compare, copy and pass it freely. Thread safety: immutable.
struct Device {
  DeviceType type = DeviceType::cpu;
  uint8_t index = 0;

  friend constexpr bool operator==(Device, Device) = default;
  std::string str() const { return (type == DeviceType::cpu ? "cpu(" : "gpu(") + std::to_string(int(index)) + ")"; }
};

namespace engine {
[[noreturn]] KAON_API void throw_bad_index(DeviceType type, int index);
constexpr Device numbered(DeviceType type, int index) {
  if (index < 0 || index > UINT8_MAX) throw_bad_index(type, index);
  return {type, uint8_t(index)};
}
}  // namespace engine

// Throw ValueError for an index outside 0 .. 255; in a constant expression that does not compile. Every cpu(i) is the
// host's memory, and arrays of two of them are on two devices, as in MXNet. Whether gpu(i) exists is checked at its
// use.
constexpr Device cpu(int index = 0) { return engine::numbered(DeviceType::cpu, index); }
constexpr Device gpu(int index = 0) { return engine::numbered(DeviceType::gpu, index); }

// Number of usable GPUs; 0 without a driver, a GPU or the CUDA library, libkaon_cuda.so. The environment variable
// KAON_CUDA_LIBRARY names another file to load in its place. Thread safety: any thread.
KAON_API int gpu_count();
// Why gpu_count() is 0; empty otherwise.
KAON_API const char* gpu_unavailable_reason();
// Allows matrix products and convolutions of float32 on GPUs, launched from now on, to round their inputs to TF32 (10
// bits of mantissa), which is several times as fast. Off at first. Thread safety: any thread.
KAON_API void gpu_allow_tf32(bool allowed);
KAON_API bool gpu_tf32_allowed();

}  // namespace kaon
