// Kernels of the CPU with the checks that the program asks for.
#pragma once

#include <atomic>

#include "kaon/ops/checks.h"
#include "kaon/ops/op_def.h"

namespace kaon::ops {

// 0: no checks. KAON_CHECK has not been read yet at first.
KAON_API extern std::atomic<unsigned> active_checks;

// Runs the kernel of the CPU, with the checks before and after it. Throws as they say. Thread safety: any thread.
KAON_API void run_checked(const OpDef& def, const void* attrs, KernelContext& c);

// Whether any check is made. Throws ValueError for a KAON_CHECK that cannot be read.
KAON_API bool read_checks();
inline bool is_checking() { return active_checks.load(std::memory_order_relaxed) != 0 && read_checks(); }

inline void run_on_cpu(const OpDef& def, const void* attrs, KernelContext& c) {
  if (active_checks.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    return run_checked(def, attrs, c);
  }
  def.cpu(attrs, c);
}

}  // namespace kaon::ops
