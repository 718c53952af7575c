#include "kaon/engine/scheduler/submit.h"

#include <algorithm>
#include <functional>
#include <span>

#include "kaon/engine/operation.h"
#include "kaon/engine/operation/shared_read_lease.h"
#include "kaon/engine/scheduler/engine_impl.h"

namespace kaon::engine {
namespace {

// Sorts by address and merges duplicates; two different modes become update. Returns how many are left.
size_t sort_and_merge(Dep* deps, size_t n) noexcept {
  constexpr size_t few = 16;
  if (n <= few) {
    for (size_t i = 1; i < n; ++i) {
      if (!std::less<>()(deps[i].var(), deps[i - 1].var())) continue;
      Dep d = deps[i];
      size_t k = i;
      for (; k > 0 && std::less<>()(d.var(), deps[k - 1].var()); --k) deps[k] = deps[k - 1];
      deps[k] = d;
    }
  } else {
    std::sort(deps, deps + n, [](const Dep& a, const Dep& b) { return std::less<>()(a.var(), b.var()); });
  }
  size_t kept = 0;
  for (size_t i = 0; i < n; ++i) {
    if (kept && deps[kept - 1].var() == deps[i].var()) {
      if (deps[kept - 1].mode() != deps[i].mode()) deps[kept - 1].set_mode(AccessMode::update);
    } else {
      if (kept != i) deps[kept] = deps[i];
      ++kept;
    }
  }
  return kept;
}

// Sorts the accesses to vars that other threads know to the front, locks these vars and returns their number.
[[gnu::always_inline]] inline size_t lock_accesses(OpNode& op) noexcept {
  const size_t fresh = op.num_fresh, given = op.num_deps - fresh;
  const size_t n = given < 2 ? given : sort_and_merge(op.deps, given);
  if (n != given) std::copy_n(op.deps + given, fresh, op.deps + n);
  op.num_deps = uint16_t(n + fresh);
  for (size_t i = 0; i < n; ++i) op.deps[i].var()->lock();
  return n;
}

// Called with the locks of the first n. Joins the shared read lease; if it has ended, or this op writes a var that a
// shared read lease covers (it could wait for itself), falls back to one access per var. Returns the number of locks
// held.
[[gnu::noinline]] size_t enter_read_lease(OpNode& op, size_t n) {
  const std::span<const Dep> locked(op.deps, n);
  const bool writes_there = std::any_of(locked.begin(), locked.end(),
                                        [](const Dep& d) { return d.is_write() && d.var()->has_read_leases(); });
  if (!writes_there && op.read_lease->enter()) return n;
  for (const Dep& d : locked) d.var()->unlock();
  op.read_one_by_one();
  return lock_accesses(op);
}

// Destroys an operation that has not been queued anywhere.
void destroy(OpNode& op) noexcept {
  op.read_lease = nullptr;
  op.type->destroy(op);
  if (op.budget) op.budget->release();
  op.free_deps();
  delete &op;
}

void reserve(Engine::Impl& engine, OpNode& op) {
  try {
    engine.ready.chosen()->reserve(size_t(engine.counts.in_flight()) + 64);  // + 64: others may push at the same time
  } catch (...) {
    destroy(op);
    throw;
  }
}

}  // namespace

void submit(Engine::Impl& engine, OpNode& op) {
  if (engine.is_gone()) [[unlikely]] {
    const OpLabel label = op.label;
    destroy(op);
    engine.throw_gone(label.name, describe(label));
  }
  const MemoryBudget* budget = engine.self.active_budget();
  if (budget && budget->stop_token().stop_possible()) [[unlikely]] {
    budget->retain();
    op.budget = budget;
  }
  if (op.priority == Priority::normal) op.priority = thread_context().priority;
  engine.ready.note_priority(op.priority);
  if (engine.ready.chosen()) [[unlikely]]
    reserve(engine, op);
  const uint64_t sequence = op.sequence = engine.counts.push();
  if (engine.profiler.is_on()) [[unlikely]] {
    uint64_t now = Profiler::now();
    engine.profiler.record({op.label.name, "push", now, now + 1, op.label.block_path, op.label.site, sequence});
  }

  size_t n = lock_accesses(op);
  if (op.read_lease) {
    try {
      n = enter_read_lease(op, n);
    } catch (...) {  // no memory for its accesses; none has been queued
      op.num_deps = 0;
      op.read_lease = nullptr;
      engine.runner.finish(op);
      throw;
    }
  }
  Dep* const deps = op.deps;
  for (size_t i = n; i < op.num_deps; ++i) {
    deps[i].op = &op;
    deps[i].var()->begin_first_write();
  }
  op.pending.store(uint32_t(n) + 1, std::memory_order_relaxed);
  uint32_t granted = 1;
  SharedReadLease* ended = nullptr;
  for (size_t i = 0; i < n; ++i) {
    Var& var = *deps[i].var();
    if (deps[i].is_write() && var.has_read_leases()) [[unlikely]]
      SharedReadLease::end_all_at(var, ended);
    deps[i].op = &op;
    granted += var.append(deps[i]);
  }
  for (size_t i = 0; i < n; ++i) deps[i].var()->unlock();
  // granted everywhere: no queue holds the operation, so no other thread can lower its count
  bool is_ready = granted == n + 1 || op.pending.fetch_sub(granted, std::memory_order_acq_rel) == granted;
  if (ended) [[unlikely]]  // this op may be destroyed by then
    SharedReadLease::give_back_all(ended, [&](Dep* list) { engine.runner.grant_all(list); });

  Workers& workers = engine.workers;
  if (workers.is_serial()) {
    if (is_ready) workers.run_serial(op);
    return;
  }
  if (is_ready) workers.make_ready(op);
  if (engine.ready.chosen()) [[unlikely]]
    workers.run_burst();
  const bool is_full = engine.counts.exceed(uint64_t(engine.options.max_in_flight), sequence);
  if (is_full || (budget && !budget->has_room())) [[unlikely]]
    engine.backpressure.throttle();
}

}  // namespace kaon::engine
