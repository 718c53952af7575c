// Compiling kernels while the program runs: NVRTC, opened by the first plan that has something to compile.
#pragma once

#include <string>

namespace kaon::cuda {

// Why nothing can be compiled for this device; empty when it can. Thread safety: any thread.
const std::string& why_no_compiler(int device);

// The compiler and the architecture of the device, as text: the same source gives the same kernels under the same name.
std::string compiler_name(int device);

// CUDA C++20 to machine code for the device; `name` stands in messages. Throws DeviceError with what the compiler says.
// Thread safety: any thread; several compile at once.
std::string compile(const std::string& source, const char* name, int device);

}  // namespace kaon::cuda
