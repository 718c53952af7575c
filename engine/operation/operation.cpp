#include "kaon/engine/operation.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "kaon/engine/operation/shared_read_lease.h"
#include "kaon/engine/operation/var.h"

namespace kaon::engine {

void OpNode::reserve_many_deps(size_t count) {
  if (count > UINT16_MAX) throw ValueError("[push] an operation has at most 65535 accesses");
  deps = static_cast<Dep*>(pool_allocate(count * sizeof(Dep)));
  num_deps = reserved_deps = uint16_t(count);
}

void OpNode::read_one_by_one() {
  const std::span<Var* const> vars = read_lease->vars();
  Dep* const before = deps;
  const uint16_t count = num_deps, reserved = reserved_deps;
  reserve_deps(count + vars.size());
  std::move_backward(before + count - num_fresh, before + count, deps + num_deps);
  if (before != deps) std::copy_n(before, count - num_fresh, deps);
  for (size_t i = 0; i < vars.size(); ++i) deps[count - num_fresh + i].set(*vars[i], AccessMode::read);
  if (reserved > inline_deps) pool_free(before, reserved * sizeof(Dep));
  read_lease = nullptr;
}

std::optional<AccessMode> OpNode::access_to(const Var& var) const noexcept {
  for (int i = 0; i < num_deps; ++i) {
    if (deps[i].var() == &var) return deps[i].mode();
  }
  if (read_lease && read_lease->has(var)) return AccessMode::read;
  return std::nullopt;
}

OpNode* OpNode::with_room(size_t bytes) {
  const size_t lines = (bytes + 63) / 64;
  auto* op = ::new (pool_allocate(block_bytes + 64 * lines)) OpNode;
  op->lines_behind = uint16_t(lines);
  return op;
}

}  // namespace kaon::engine
