// The setting of gpu_allow_tf32(), for the kernels of this library.
#pragma once

#include <atomic>

namespace kaon::cuda {

inline std::atomic<bool> tf32_allowed{false};

}  // namespace kaon::cuda
