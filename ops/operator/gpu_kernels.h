// The kernels that libkaon_cuda.so has. A light header.
#pragma once

#include <string_view>

#include "kaon/ops/view.h"

namespace kaon {

struct OpDef;

}  // namespace kaon

namespace kaon::ops {

using Kernel = void (*)(const void* attrs, KernelContext&);

struct GpuKernel {
  Kernel run;
  // Slow preparation without arrays (compiling), done before the first launch on this device. Null: none is needed.
  // Throws DeviceError. Thread safety: any thread.
  void (*prepare)(const void* attrs, int device) = nullptr;
};
using AddKernel = void (*)(void* table, std::string_view op, const GpuKernel& kernel);

// Throws DeviceError when the operator has none. Thread safety: any thread.
const GpuKernel& gpu_kernel(const OpDef& def);

}  // namespace kaon::ops
