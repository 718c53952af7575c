#include "kaon/engine/device.h"

#include <fmt/format.h>

#include "kaon/engine/device/backend.h"
#include "kaon/engine/error.h"

namespace kaon {

using namespace engine;

void engine::throw_bad_index(DeviceType type, int index) {
  throw ValueError(
      fmt::format("[{}] expected an index of 0 to 255, got {}", type == DeviceType::cpu ? "cpu" : "gpu", index));
}

int gpu_count() { return gpu_backend_count(); }
const char* gpu_unavailable_reason() { return why_no_gpu_backend(); }

void gpu_allow_tf32(bool allowed) {
  if (Backend* backend = gpu_backend()) backend->allow_tf32(allowed);
}
bool gpu_tf32_allowed() {
  Backend* backend = gpu_backend();
  return backend && backend->tf32_allowed();
}

}  // namespace kaon
