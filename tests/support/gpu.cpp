#include "kaon/engine/device/backend.h"
#include "kaon/tests/support/skip.h"

namespace kaon::test {

using namespace engine;

bool has_gpu() {
  if (gpu_count() > 0) return true;
  skip(std::string("no GPU: ") + gpu_unavailable_reason());
  return false;
}

}  // namespace kaon::test
