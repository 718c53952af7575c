// What factorisations on CUDA share: a block of threads for each matrix.
#pragma once

#include <algorithm>
#include <limits>

#include "kaon/ops/cuda/launch.cuh"

namespace kaon::cuda {

// n numbers of workspace.
template <class T>
T* scratch(KernelContext& c, int64_t n) {
  return static_cast<T*>(c.run.workspace(size_t(std::max<int64_t>(1, n)) * sizeof(T)));
}

// An output's elements, or workspace where it is not wanted.
template <class T>
T* output(KernelContext& c, int i, int64_t n) {
  return c.out(i).data ? c.out(i).as<T>() : scratch<T>(c, n);
}

// Starts a kernel whose blocks go through the matrices of a batch.
template <class... P, class... A>
void launch_batch(KernelContext& c, int64_t batch, void (*kernel)(P...), A&&... arguments) {
  if (batch > 0) launch(c, kernel, dim3(unsigned(std::min<int64_t>(batch, 65535))), dim3(block), arguments...);
}

// body(k) for k in [0, n), shared among the threads of the block, which then wait for each other.
template <class F>
__device__ void each_in_block(int64_t n, F&& body) {
  for (int64_t k = threadIdx.x; k < n; k += blockDim.x) body(k);
  __syncthreads();
}

template <class T>
__device__ T not_a_number() {
  return std::numeric_limits<T>::quiet_NaN();
}

}  // namespace kaon::cuda
