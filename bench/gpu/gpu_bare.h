// Products of square matrices by cuBLASLt called bare: what gpu_bare.so exports. It alone is linked with CUDA.
#pragma once

#include <cstdint>

namespace kaon::bench {

// How the elements are stored and multiplied; sums are float32.
enum class BareType : int { float32, tf32, bfloat16 };

// Plain functions and data, looked up by name. Thread safety: one thread.
struct GpuBare {
  // The name of GPU 0; null when it cannot be used, and then `problem` says why.
  const char* (*device)();
  const char* (*problem)();
  // Two matrices of n x n random elements and the product's, with the algorithm that cuBLASLt puts first; null on
  // failure.
  void* (*open)(BareType type, int64_t n);
  double (*seconds_per_product)(void* product, int calls);  // negative on failure
  void (*close)(void* product);
};
inline constexpr const char* gpu_bare_file = "gpu_bare.so";
inline constexpr const char* gpu_bare_symbol = "kaon_gpu_bare";  // const GpuBare

}  // namespace kaon::bench
