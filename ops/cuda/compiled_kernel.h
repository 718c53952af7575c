// Kernels that are compiled while the program runs, each once.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace kaon::cuda {

// The kernel `name` of a source, after kernel_prelude(), for this device, which is current. It stays loaded as long as
// the process. Code is also cached in files for other processes: in $KAON_CACHE_DIR, else in kaon below
// $XDG_CACHE_HOME, else in ~/.cache/kaon. A broken file is replaced; if none can be written, each process compiles.
// Throws DeviceError. Thread safety: any thread; concurrent calls for the same kernel wait for the first.
cudaKernel_t compiled_kernel(const std::string& source, const char* name, int device);

// Does the slow part, with any device current: compiles, and loads the code onto the device, which the first launch
// would wait for. Throws DeviceError. Thread safety: any thread.
void prepare_kernel(const std::string& source, const char* name, int device);

}  // namespace kaon::cuda
