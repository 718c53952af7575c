// HOST_DEVICE: marks element functions that CPU loops and CUDA kernels share.
#pragma once

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif
