#include "kaon/graph/memory/plan_arenas.h"

#include <algorithm>
#include <mutex>

#include "kaon/graph/ir/outside_budget.h"

namespace kaon::graph {
namespace {

bool is_idle(const Buffer& buffer) {
  Var& var = const_cast<Buffer&>(buffer).var;
  if (buffer.engine->is_gone()) return var.is_idle();  // nothing is pushed there any more
  std::lock_guard lock(var);
  return var.is_idle();
}

}  // namespace

// Prefers the next arena if this thread has used it before, without reading a var that a worker writes to. Else an idle
// one; else one that this thread has used before, in turn; else, when there are enough of them, any.
PlanArenas::Arena* PlanArenas::find(Engine& engine, Device device) {
  constexpr size_t for_one_caller = 2;
  const auto caller = std::this_thread::get_id();
  if (arenas_.size() >= for_one_caller) {
    Arena& a = arenas_[next_ % arenas_.size()];
    if (a.caller == caller && !a.leased && a.buffer->engine == engine.ref() && a.buffer->device == device) return &a;
  }
  Arena *own = nullptr, *any = nullptr;
  size_t known = 0;
  for (size_t i = 0; i < arenas_.size(); ++i) {
    Arena& a = arenas_[(next_ + i) % arenas_.size()];
    if (a.buffer->device != device) continue;
    ++known;
    if (a.leased) continue;
    if (is_idle(*a.buffer)) return &a;
    if (!(a.buffer->engine == engine.ref())) continue;
    if (!any) any = &a;
    if (!own && a.caller == caller) own = &a;
  }
  if (known < for_one_caller) return nullptr;
  if (own) return own;
  return known < size_t(std::max(1, engine.stats().threads)) ? nullptr : any;
}

size_t PlanArenas::lease(Engine& engine, Device device, size_t bytes) {
  std::lock_guard lock(lock_);
  Arena* found = find(engine, device);
  if (!found) {
    const OutsideBudget outside;
    arenas_.push_back({.buffer = IntrusivePtr<Buffer>(new Buffer(bytes, device, engine))});
    found = &arenas_.back();
  }
  ++next_;
  if (!(found->buffer->engine == engine.ref())) found->buffer->engine = engine.ref();  // idle: no operation reads this
  found->caller = std::this_thread::get_id();
  found->leased = true;
  return size_t(found - arenas_.data());
}

void PlanArenas::end_lease(size_t number) {
  std::lock_guard lock(lock_);
  arenas_[number].leased = false;
}

void PlanArenas::give_back_unused(size_t number) {
  std::lock_guard lock(lock_);
  const Arena& a = arenas_[number];
  if (!a.leased && is_idle(*a.buffer)) a.buffer->give_back();
}

IntrusivePtr<Buffer> PlanArenas::buffer(size_t number) const {
  std::lock_guard lock(lock_);
  return arenas_[number].buffer;
}

size_t PlanArenas::count() const {
  std::lock_guard lock(lock_);
  return arenas_.size();
}

}  // namespace kaon::graph
