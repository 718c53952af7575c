// An operation: how it accesses variables, its body, and the node that holds both while it is in flight. Part of the
// public headers because a push builds its node in the caller, in registers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "kaon/engine/api.h"
#include "kaon/engine/block_pool.h"
#include "kaon/engine/error.h"
#include "kaon/engine/run_context.h"
#include "kaon/engine/thread_context.h"

namespace KAON_API kaon {

namespace engine {
class MemoryBudget;
class SharedReadLease;
class Var;
struct OpBase;
struct OpNode;
}  // namespace engine

enum class AccessMode : uint8_t {
  read,
  write,   // overwrites everything: heals a failed array
  update,  // reads and writes: a failure on either side fails the array
};

// One access of an operation on a var.
struct Access {
  engine::Var& var;
  AccessMode mode;
};
inline Access read(engine::Var& v) { return {v, AccessMode::read}; }
inline Access write(engine::Var& v) { return {v, AccessMode::write}; }    // overwrites all of it
inline Access update(engine::Var& v) { return {v, AccessMode::update}; }  // in place

struct PushOptions {
  OpLabel label = {};
  Priority priority = Priority::normal;  // normal: that of the PriorityScope
  bool transactional = false;            // when an input has failed, AccessMode::update leaves its arrays as they were
};

namespace engine {
// How the engine runs and destroys the node of an operation, or tells a waiter.
struct OpType {
  void (*run)(OpNode&, RunContext&) = nullptr;
  void (*destroy)(OpNode&) noexcept = nullptr;  // ends the body's life, run or not
  void (*signal)(OpBase&) noexcept = nullptr;   // waiters only: called once, after the access is completed
  bool ends_later = false;                      // run() only begins; Engine::complete ends the operation
  // For operations that would wait for each other's lock: the number of a group, whose operations run one at a time.
  // Such an operation must not wait for another one of its group.
  size_t (*serial_queue)(const OpNode&) noexcept = nullptr;
};

// One access of one op: the node of a var's queue. Stored inside the op, so queueing allocates nothing. The mode is in
// the low bits of the var's address: three of these and the head of an op fit into two cache lines.
class Dep {
 public:
  Dep() noexcept {}  // holds nothing before set(): an op has room for more than it uses
  void set(Var& var, AccessMode mode) noexcept {
    next = nullptr;
    bits_ = reinterpret_cast<uintptr_t>(&var) | uintptr_t(mode);
  }
  void set_mode(AccessMode mode) noexcept { bits_ = (bits_ & ~mode_mask) | uintptr_t(mode); }
  Var* var() const noexcept { return reinterpret_cast<Var*>(bits_ & ~mode_mask); }
  AccessMode mode() const noexcept { return AccessMode(bits_ & mode_mask); }
  bool is_write() const noexcept { return mode() != AccessMode::read; }

  Dep* next;
  OpBase* op;

 private:
  static constexpr uintptr_t mode_mask = 3;
  uintptr_t bits_;
};

// Base of operations and waiters. 16-byte alignment only: waiters are stored in coroutine frames.
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

// An operation in flight: its accesses and its body, in one pooled block.
struct OpNode : OpBase {
  static constexpr size_t block_bytes = 256;
  static constexpr uint16_t inline_deps = 4;
  static constexpr size_t payload_bytes = 64;

  Dep own_deps[inline_deps];
  uint64_t sequence = 0;
  OpLabel label;
  const MemoryBudget* budget = nullptr;   // a counted reference; set only if they can stop the operation
  SharedReadLease* read_lease = nullptr;  // reads besides `deps`; the body keeps it alive
  alignas(16) std::byte payload[payload_bytes];

  // Makes room for `count` accesses. Throws ValueError beyond 65535, MemoryError, and then changes nothing.
  void reserve_deps(size_t count) {
    if (count > inline_deps) [[unlikely]]
      return reserve_many_deps(count);
    deps = own_deps;
    num_deps = reserved_deps = uint16_t(count);
  }
  void free_deps() noexcept {
    if (reserved_deps > inline_deps) pool_free(deps, reserved_deps * sizeof(Dep));
  }

  // Replaces `read_lease`, which has ended, by one read access per var, before the num_fresh last accesses.
  void read_one_by_one();

  // How it accesses the var, if it does.
  std::optional<AccessMode> access_to(const Var& var) const noexcept;

  // Allocates `bytes` of trailing storage in the same block, so it arrives in the executing core's cache with the op.
  static OpNode* with_room(size_t bytes);
  void* behind() noexcept { return reinterpret_cast<std::byte*>(this) + block_bytes; }

  static void* operator new(size_t) { return pool_allocate_fixed<block_bytes>(); }
  static void operator delete(void* p) noexcept { pool_free(p, block_bytes); }  // after a constructor that threw
  static void operator delete(OpNode* op, std::destroying_delete_t) noexcept {
    const size_t bytes = block_bytes + 64 * size_t(op->lines_behind);
    op->~OpNode();
    pool_free(op, bytes);
  }

 private:
  void reserve_many_deps(size_t count);
};
}  // namespace engine

static_assert(sizeof(engine::OpNode) <= engine::OpNode::block_bytes);

namespace engine {
// The body F stored in a node, or in a pooled block beside it when it does not fit.
template <class F>
struct OpBody {
  static constexpr bool fits = sizeof(F) <= OpNode::payload_bytes && alignof(F) <= 16;
  static F& get(OpNode& op) {
    if constexpr (fits) return *std::launder(reinterpret_cast<F*>(op.payload));
    else return **std::launder(reinterpret_cast<F**>(op.payload));
  }
  template <class G>
  static void store(OpNode& op, G&& body) {
    if constexpr (fits) {
      new (op.payload) F(std::forward<G>(body));
    } else {
      void* place = pool_allocate(sizeof(F));
      try {
        new (op.payload) F*(new (place) F(std::forward<G>(body)));
      } catch (...) {
        pool_free(place, sizeof(F));
        throw;
      }
    }
  }
  static void destroy(OpNode& op) noexcept {
    F& body = get(op);
    body.~F();
    if constexpr (!fits) pool_free(&body, sizeof(F));
  }
  static constexpr OpType type{
      .run = [](OpNode& op, RunContext& context) { get(op)(context); },
      .destroy = destroy,
  };
};
}  // namespace engine

}  // namespace kaon
