// Launching kernels.
#pragma once

#include <functional>
#include <vector>

#pragma GCC visibility push(default)
namespace kaon_emulator {

// body() is one thread of the kernel. The pointers are those among its arguments.
cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> body,
                   const std::vector<const void*>& pointers);
cudaError_t get_attributes(cudaFuncAttributes* attributes);
cudaError_t set_attribute(cudaFuncAttribute attribute, int value);
cudaError_t max_active_blocks(int* blocks, int threads, size_t shared_bytes);

}  // namespace kaon_emulator
#pragma GCC visibility pop

// Arguments are converted to the kernel's parameters here, as for a call, and kept by value until the kernel runs.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert((!std::is_reference_v<Parameters> && ...), "a kernel takes its parameters by value");
  auto with = [&](Parameters... converted) {
    std::vector<const void*> pointers;
    (..., [&] {
      if constexpr (std::is_pointer_v<Parameters>) pointers.push_back(converted);
    }());
    auto body = [kernel, kept = std::tuple<Parameters...>(converted...)] { std::apply(kernel, kept); };
    return kaon_emulator::launch(*config, std::move(body), pointers);
  };
  return with(std::forward<Arguments>(arguments)...);
}

template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel*) {
  return kaon_emulator::get_attributes(attributes);
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel*, cudaFuncAttribute attribute, int value) {
  return kaon_emulator::set_attribute(attribute, value);
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel*, int threads, size_t shared_bytes) {
  return kaon_emulator::max_active_blocks(blocks, threads, shared_bytes);
}
