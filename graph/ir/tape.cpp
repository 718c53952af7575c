#include "kaon/graph/ir/tape.h"

#include <fmt/format.h>

#include "kaon/ops/shape.h"

namespace kaon::autograd {

using namespace engine;

void refuse_changed(std::string_view op, const std::string& what, const SavedArray& saved,
                    const std::source_location& recorded) {
  const std::source_location changed = saved.array.node().buffer->last_write();
  throw StateError(fmt::format(
      "[backward] {} of {}, {} {}, recorded at {}, was changed in place at {}: the gradient needs the values of "
      "the recorded call; call backward() first, or change a copy",
      what, op, name_of(saved.array.dtype()), saved.array.shape().str(), describe(recorded), describe(changed)));
}

}  // namespace kaon::autograd
