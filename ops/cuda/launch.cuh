// Launching kernels on the stream of the operator that runs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kaon/engine/device/cuda/check.h"
#include "kaon/ops/cuda/geometry.h"
#include "kaon/ops/view.h"

namespace kaon::cuda {

// Starts `kernel` with these blocks of threads. Arguments go by value. Throws DeviceError.
template <class... P, class... A>
void launch(KernelContext& c, void (*kernel)(P...), dim3 blocks, dim3 threads, A&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = native(*c.run.stream());
  check(cudaLaunchKernelEx(&config, kernel, P(arguments)...), "launch");
}

// Copies within the device's memory; nothing when source and destination are the same.
inline void copy_bytes(KernelContext& c, const void* src, void* dst, size_t bytes) {
  if (src == dst || bytes == 0) return;
  check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, native(*c.run.stream())), "copy");
}
inline void zero_bytes(KernelContext& c, void* dst, size_t bytes) {
  if (bytes > 0) check(cudaMemsetAsync(dst, 0, bytes, native(*c.run.stream())), "fill");
}

// The first item of this thread and the distance to its next one.
__device__ inline int64_t first_item() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t item_step() { return int64_t(gridDim.x) * blockDim.x; }

template <class F>
__global__ void for_each_kernel(int64_t n, F body) {
  for (int64_t i = first_item(); i < n; i += item_step()) body(i);
}

// body(i) for i in [0, n), each on a thread. F is a struct with `__device__ void operator()(int64_t) const`.
template <class F>
void for_each(KernelContext& c, int64_t n, const F& body) {
  if (n > 0) launch(c, for_each_kernel<F>, blocks_for(n), unsigned(block), n, body);
}

}  // namespace kaon::cuda
