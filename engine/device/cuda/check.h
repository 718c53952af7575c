// Status codes of CUDA functions as exceptions. A light header: .cu files read it.
#pragma once

#include <cuda_runtime_api.h>

namespace kaon::engine {
class Stream;
}  // namespace kaon::engine

namespace kaon::cuda {

// Throws DeviceError naming `what`, or MemoryError when the device lacks memory.
void check(cudaError_t status, const char* what);

// CUDA's handle of a stream of this backend.
cudaStream_t native(engine::Stream& stream);

}  // namespace kaon::cuda
