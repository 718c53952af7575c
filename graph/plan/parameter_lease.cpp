#include "kaon/graph/plan/parameter_lease.h"

#include <mutex>
#include <utility>

#include "kaon/ops/array/array_node.h"

namespace kaon::graph {

PlanParameters::~PlanParameters() {
  try {
    forget();
  } catch (const StateError&) {  // in a child of a fork: a thread of the parent is inside
  }
}

void PlanParameters::forget() {
  IntrusivePtr<ParameterLease> old;
  {
    std::lock_guard lock(lock_);
    old = std::exchange(current_, {});
    last_.clear();
    calls_alike_ = 0;
  }
  if (old) old->end();
}

IntrusivePtr<ParameterLease> PlanParameters::lease(std::span<const NDArray* const> arrays) {
  constexpr int calls_enough = 4;
  if (inputs_.size() < 2) return {};
  IntrusivePtr<ParameterLease> old;  // ended when the lock is given back
  {
    std::lock_guard lock(lock_);
    bool are_same = !last_.empty();
    for (size_t i = 0; i < inputs_.size() && are_same; ++i) are_same = last_[i] == arrays[inputs_[i]]->ptr().get();
    if (are_same && current_ && !current_->has_ended()) return current_;
    if (current_) calls_alike_ = 0;
    old = std::exchange(current_, {});
    if (are_same && ++calls_alike_ >= calls_enough) {
      calls_alike_ = 0;
      IntrusivePtr<ParameterLease> read(new ParameterLease(Engine::current().ref()));
      std::vector<Var*> vars;
      for (const uint32_t i : inputs_) {
        read->arrays.push_back(*arrays[i]);
        vars.push_back(&read->arrays.back().node().buffer->var);
      }
      if (read->begin(std::move(vars))) current_ = read;
    } else if (!are_same) {
      calls_alike_ = 0;
      last_.clear();
      for (const uint32_t i : inputs_) last_.push_back(arrays[i]->ptr().get());
    }
    if (current_) return current_;
  }
  if (old) old->end();
  return {};
}

}  // namespace kaon::graph
