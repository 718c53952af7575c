// An operation in flight: its accesses and its body, in one pooled block.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "kaon/engine/memory/memory_budget.h"
#include "kaon/engine/memory/pool_cache.h"
#include "kaon/engine/operation/shared_read_lease.h"
#include "kaon/engine/operation/var.h"

namespace kaon {

// Base of waiters and operations. 16-byte alignment only: waiters are stored in coroutine frames.
struct OpBase {
  const OpType* type = nullptr;
  std::atomic<uint32_t> pending{0};  // grants still missing
  uint16_t num_deps = 0;
  Priority priority = Priority::normal;
  bool counted = true;         // false: an invitation to help, not an operation
  bool transactional = false;  // a failed input leaves the updated arrays as they were
  uint16_t reserved_deps = 0;  // as allocated: merging duplicates lowers num_deps
  uint16_t num_fresh = 0;      // the last num_fresh accesses are first writes to vars that no other thread knows yet
  uint16_t lines_behind = 0;   // trailing storage of an OpNode, in lines of 64 bytes
  Dep* deps = nullptr;
  OpBase* next = nullptr;  // in the list behind a full queue
  bool is_waiter() const { return type->signal != nullptr; }
};

// Waits for one var: a thread's wait, a coroutine's await. Not counted as an operation.
struct WaitNode : OpBase {
  explicit WaitNode(const OpType& t, Var& var, AccessMode mode) {
    type = &t;
    num_deps = 1;
    deps = &dep;
    dep.op = this;
    dep.set(var, mode);
  }
  Dep dep;
  IntrusivePtr<const OpError> error;  // set before signal when the array has failed
  uint64_t ended_by = 0;              // sequence of the operation that ended the wait
  bool abandoned = false;             // under the var's lock: removed from the queue, and not to be queued again
  // For a wait inside an operation: links of the engine's list of them (OpWaits).
  const OpNode* waiting_op = nullptr;
  WaitNode* newer_wait = nullptr;
  WaitNode* older_wait = nullptr;
};

struct OpNode : OpBase {
  OpNode() = default;
  OpNode(const OpType& type, const OpLabel& label, Priority priority, bool transactional) : label(label) {
    this->type = &type;
    this->priority = priority;
    this->transactional = transactional;
  }

  static constexpr size_t block_bytes = 256;
  static constexpr uint16_t inline_deps = 4;
  static constexpr size_t payload_bytes = detail::body_bytes;

  Dep own_deps[inline_deps];
  uint64_t sequence = 0;
  OpLabel label;
  const MemoryBudget* budget = nullptr;   // a counted reference; set only if they can stop the operation
  SharedReadLease* read_lease = nullptr;  // reads besides `deps`; the body keeps it alive
  alignas(16) std::byte payload[payload_bytes];

  // Makes room for `count` accesses. Throws ValueError beyond 65535, MemoryError, and then changes nothing.
  void reserve_deps(size_t count) {
    Dep* room = own_deps;
    if (count > inline_deps) [[unlikely]] {
      if (count > UINT16_MAX) throw ValueError("[push] an operation has at most 65535 accesses");
      room = static_cast<Dep*>(pool_allocate(count * sizeof(Dep)));
    }
    deps = room;
    num_deps = reserved_deps = uint16_t(count);
  }
  void free_deps() noexcept {
    if (reserved_deps > inline_deps) pool_free(deps, reserved_deps * sizeof(Dep));
  }

  // Replaces `read_lease`, which has ended, by one read access per var, before the num_fresh last accesses.
  void read_one_by_one() {
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

  // How it accesses the var, if it does.
  std::optional<AccessMode> access_to(const Var& var) const noexcept {
    for (int i = 0; i < num_deps; ++i) {
      if (deps[i].var() == &var) return deps[i].mode();
    }
    if (read_lease && read_lease->has(var)) return AccessMode::read;
    return std::nullopt;
  }

  // Allocates `bytes` of trailing storage in the same block, so it arrives in the executing core's cache with the op.
  static OpNode* with_room(size_t bytes) {
    const size_t lines = (bytes + 63) / 64;
    auto* op = ::new (pool_allocate(block_bytes + 64 * lines)) OpNode;
    op->lines_behind = uint16_t(lines);
    return op;
  }
  void* behind() noexcept { return reinterpret_cast<std::byte*>(this) + block_bytes; }

  static void* operator new(size_t) { return pool_allocate_fixed<block_bytes>(); }
  static void operator delete(void* p) noexcept { pool_free(p, block_bytes); }  // after a constructor that threw
  static void operator delete(OpNode* op, std::destroying_delete_t) noexcept {
    const size_t bytes = block_bytes + 64 * size_t(op->lines_behind);
    op->~OpNode();
    pool_free(op, bytes);
  }
};
// The payload is the end of the node, so its offset follows from the size.
static_assert(sizeof(OpNode) == detail::body_offset + detail::body_bytes && sizeof(OpNode) <= OpNode::block_bytes);

}  // namespace kaon
