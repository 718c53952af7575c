// Compiling kernels while the program runs, with NVRTC, which the first plan with something to compile opens.
#pragma once

#include <string>

namespace kaon::cuda {

// Why nothing can be compiled for this device; empty when it can. Thread safety: any thread.
const std::string& why_no_compiler(int device);

// The compiler and the architecture of the device, as text: the same source gives the same kernels under the same name.
std::string compiler_name(int device);

// CUDA C++20 to machine code for the device; `name` is for messages. Throws DeviceError with the compiler's messages.
// Thread safety: any thread; several compile at once.
std::string compile(const std::string& source, const char* name, int device);

}  // namespace kaon::cuda
