#include "kaon/mxnet/handle/handle.h"

#include <fmt/format.h>

namespace kaon::mxnet {

Context Context::numbered(int kind, int index) {
  if (kind != 1 && kind != 2 && kind != 3 && kind != 5) {
    throw ValueError(
        fmt::format("expected the device type 1 (cpu), 2 (gpu), 3 (cpu_pinned) or 5 (cpu_shared), got {}", kind));
  }
  const Context context{ContextKind(kind), index < 0 ? 0 : index};
  context.device();  // throws for an index that is too large
  return context;
}

ArrayObject& array_of(void* handle) {
  if (!handle) throw ValueError("the handle of an array is null");
  return *static_cast<ArrayObject*>(handle);
}

}  // namespace kaon::mxnet
