#include "kaon/mxnet/handle/numpy_shape.h"

#include <fmt/format.h>

#include <atomic>

#include "kaon/engine/error.h"

namespace kaon::mxnet {

namespace {
std::atomic<bool> everywhere{false};
thread_local constinit bool in_thread = false;
}  // namespace

NumpyShape numpy_shape() noexcept {
  if (everywhere.load(std::memory_order_relaxed)) return NumpyShape::everywhere;
  return in_thread ? NumpyShape::thread : NumpyShape::off;
}

void set_numpy_shape(int mode) {
  if (mode < 0 || mode > 2) throw ValueError(fmt::format("[numpy shape] expected 0, 1 or 2, got {}", mode));
  in_thread = mode != 0;
  if (mode != int(NumpyShape::thread)) everywhere.store(mode == 2, std::memory_order_relaxed);
}

}  // namespace kaon::mxnet
