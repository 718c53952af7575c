// What a source given to the emulated NVRTC sees, and how its kernels are called with an array of arguments.
#pragma once

#define __CUDACC_RTC__ 1

#include <cstddef>
#include <type_traits>
#include <utility>

#include "../vector_types.h"
#include "device_math.h"
#include "language.h"
#include "threads.h"

namespace kaon_emulator {

// A compiled source exports one of these for each kernel.
struct RtcKernel {
  void (*call)(void** arguments);  // as one thread
  const size_t* sizes;             // of the parameters, in bytes
  const bool* are_pointers;        // which of them
  size_t num_parameters;
};

template <auto kernel>
struct RtcCall;
template <class... Parameters, void (*kernel)(Parameters...)>
struct RtcCall<kernel> {
  static void call(void** arguments) {
    [&]<size_t... i>(std::index_sequence<i...>) { kernel(*static_cast<Parameters*>(arguments[i])...); }
    (std::index_sequence_for<Parameters...>{});
  }
  static constexpr size_t sizes[] = {sizeof(Parameters)..., 0};
  static constexpr bool are_pointers[] = {std::is_pointer_v<Parameters>..., false};
  static constexpr RtcKernel value = {call, sizes, are_pointers, sizeof...(Parameters)};
};

// How the bytes begin that NVRTC gives and the runtime loads; a shared object follows.
struct RtcImage {
  static constexpr char expected_magic[8] = "KAONRTC";
  char magic[8];
  char architecture[24];  // "sm_90"
  size_t bytes;           // of the shared object
};

}  // namespace kaon_emulator
