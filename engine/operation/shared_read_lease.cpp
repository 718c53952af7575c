#include "kaon/engine/operation/shared_read_lease.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <unordered_map>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/operation.h"

namespace kaon::engine {
namespace {

// The shared read leases by var, looked up by writes to a var that has some.
struct Registry : WithMutex {  // locked while locks of vars are held
  std::unordered_multimap<const Var*, SharedReadLease*> at;
};
Registry& registry() { return ProcessWide<Registry>::get(); }

// Under the registry's lock.
void take_out(const Var& var, const SharedReadLease& read) noexcept {
  auto [at, end] = registry().at.equal_range(&var);
  registry().at.erase(std::find_if(at, end, [&](const auto& entry) { return entry.second == &read; }));
}

}  // namespace

bool SharedReadLease::begin(std::vector<Var*> vars) {
  std::sort(vars.begin(), vars.end(), std::less<>());
  vars.erase(std::unique(vars.begin(), vars.end()), vars.end());
  vars_ = std::move(vars);
  for (Var* v : vars_) v->lock();
  bool begins = std::all_of(vars_.begin(), vars_.end(), [](Var* v) { return v->can_begin_read_lease(); });
  if (begins) {
    std::lock_guard lock(registry().mutex);
    size_t entered = 0;
    try {
      for (; entered < vars_.size(); ++entered) registry().at.emplace(vars_[entered], this);
    } catch (const std::bad_alloc&) {
      begins = false;
      for (size_t i = 0; i < entered; ++i) take_out(*vars_[i], *this);
    }
    if (begins) {
      for (Var* v : vars_) v->begin_read_lease();
    }
  }
  for (Var* v : vars_) v->unlock();
  if (!begins) state_.store(ended, std::memory_order_release);
  return begins;
}

bool SharedReadLease::has(const Var& var) const noexcept {
  return std::binary_search(vars_.begin(), vars_.end(), &var, std::less<>());
}

void SharedReadLease::give_back(FunctionRef<void(Dep*)> granted) {
  {
    std::lock_guard lock(registry().mutex);
    for (Var* v : vars_) take_out(*v, *this);
  }
  if (engine_->is_gone())
    return;  // nothing waits for the vars; a thread that does not exist in this forked process may have locked one
  for (Var* v : vars_) {
    if (Dep* list = v->end_read_lease()) granted(list);
  }
}

void SharedReadLease::end() {
  if (!mark_ended()) return;
  give_back([this](Dep* list) { engine_->grant(list); });
}

void SharedReadLease::end_all_at(const Var& var, SharedReadLease*& to_give_back) {
  std::lock_guard lock(registry().mutex);
  auto [at, end] = registry().at.equal_range(&var);
  for (; at != end; ++at) {
    SharedReadLease* s = at->second;
    s->retain();  // before the mark: its owner may release one that has ended
    if (s->mark_ended()) {
      s->next_ = std::exchange(to_give_back, s);
    } else {
      s->release();  // an operation inside it gives the grants back, and holds a reference until then
    }
  }
}

void SharedReadLease::give_back_all(SharedReadLease* list, FunctionRef<void(Dep*)> granted) {
  while (list) {
    SharedReadLease* s = std::exchange(list, list->next_);
    s->give_back(granted);
    s->release();
  }
}

}  // namespace kaon::engine
