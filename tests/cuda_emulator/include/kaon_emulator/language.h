// CUDA's words for g++.
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__
// A device's blocks run one after the other on one thread, which is the device's.
#define __shared__ static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__  // nothing: libstdc++ says __attribute__((__noinline__))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
