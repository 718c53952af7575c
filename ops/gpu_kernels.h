// The kernels that libkaon_cuda.so has.
#pragma once

#include "kaon/ops/op_def.h"

namespace kaon {

using Kernel = void (*)(const void* attrs, KernelContext&);

// Throws DeviceError when the operator has none. Thread safety: any thread.
Kernel gpu_kernel(const OpDef& def);

}  // namespace kaon
