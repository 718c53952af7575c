#include "kaon/engine/base/spin_lock.h"

#include "kaon/engine/error.h"

namespace kaon {

using namespace engine;

void engine::throw_locked_by_parent() {
  throw StateError(
      "[engine] another thread was using this when the process was forked, and is not here: a child uses "
      "what its parent was not using at that moment, or what it makes itself");
}

}  // namespace kaon
