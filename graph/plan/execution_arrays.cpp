// The arrays of a plan's calls: the arena, results, which are made, and parameters, which stay from call to call.
#include <algorithm>
#include <mutex>
#include <utility>

#include "kaon/graph/plan/bucket.h"
#include "kaon/graph/plan/execution_plan.h"

namespace kaon {

void ExecutionPlan::make_arrays(size_t first, Device device, std::span<NDArray> arrays, int64_t rows) const {
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].defined()) continue;
    const ValueId v = graph_.outputs[first + i];
    TensorMeta m = graph_.meta(v);
    if (options_.padded && graph_.nodes[v.node].op == &TakeRows::def) m.shape[0] = rows;
    arrays[i] = NDArray::empty(m.shape, m.dtype, device);
  }
}

PlanRun& ExecutionPlan::acquire() {
  const size_t number = options_.arenas->lease(Engine::current(), options_.device, memory_.arena_bytes);
  try {
    std::lock_guard lock(lock_);
    if (runs_.size() <= number) runs_.resize(number + 1);
    if (!runs_[number]) {
      auto made = std::make_unique<PlanRun>();
      made->number = number;
      made->arena = options_.arenas->buffer(number);
      made->views = views_;
      made->sources = sources_;
      made->states.resize(num_states_);
      made->saved.resize(saved_bytes_);
      runs_[number] = std::move(made);
    }
    return *runs_[number];
  } catch (...) {
    options_.arenas->end_lease(number);
    throw;
  }
}

void ExecutionPlan::end_lease(PlanRun& run) {
  if (run.shadow) run.shadow = nullptr;
  options_.arenas->end_lease(run.number);
  give_back_unused(run);  // of a recorded forward without a backward
}

void ExecutionPlan::give_back_unused(const PlanRun& run) {
  if (!options_.keep_arenas) options_.arenas->give_back_unused(run.number);
}

void ExecutionPlan::find_parameters() {
  if (!options_.num_data || options_.training || mutates_ || options_.device.type != DeviceType::cpu) return;
  for (size_t i = *options_.num_data; i < graph_.inputs.size(); ++i) {
    if (read_in_[0][i]) parameters_.push_back(uint32_t(i));
  }
  for (PhasePlan& half : phases_) {
    const auto others = std::stable_partition(half.externals.begin(), half.externals.end(), [&](const External& e) {
      return e.place != Place::input || !std::binary_search(parameters_.begin(), parameters_.end(), e.index);
    });
    half.num_others = size_t(others - half.externals.begin());
  }
}

ExecutionPlan::~ExecutionPlan() {
  try {
    forget_parameters();
  } catch (const StateError&) {  // in a child of a fork: a thread of the parent is inside
  }
}

void ExecutionPlan::forget_parameters() {
  IntrusivePtr<ParameterLease> old;
  {
    std::lock_guard lock(lock_);
    old = std::exchange(parameter_lease_, {});
    last_parameters_.clear();
    calls_alike_ = 0;
  }
  if (old) old->end();
}

// Pays when the parameters are not written for a while: begun once some calls have found the same arrays and no write
// has come between.
IntrusivePtr<ParameterLease> ExecutionPlan::read_parameters(std::span<const NDArray* const> inputs) {
  constexpr int calls_enough = 4;
  if (parameters_.size() < 2) return {};
  IntrusivePtr<ParameterLease> old;  // ended when the lock is given back
  {
    std::lock_guard lock(lock_);
    bool are_same = !last_parameters_.empty();
    for (size_t i = 0; i < parameters_.size() && are_same; ++i) {
      are_same = last_parameters_[i] == inputs[parameters_[i]]->ptr().get();
    }
    if (are_same && parameter_lease_ && !parameter_lease_->has_ended()) return parameter_lease_;
    if (parameter_lease_) calls_alike_ = 0;
    old = std::exchange(parameter_lease_, {});
    if (are_same && ++calls_alike_ >= calls_enough) {
      calls_alike_ = 0;
      IntrusivePtr<ParameterLease> read(new ParameterLease(Engine::current().ref()));
      std::vector<Var*> vars;
      for (const uint32_t i : parameters_) {
        read->arrays.push_back(*inputs[i]);
        vars.push_back(&read->arrays.back().node().buffer->var);
      }
      if (read->begin(std::move(vars))) parameter_lease_ = read;
    } else if (!are_same) {
      calls_alike_ = 0;
      last_parameters_.clear();
      for (const uint32_t i : parameters_) last_parameters_.push_back(inputs[i]->ptr().get());
    }
    if (parameter_lease_) return parameter_lease_;
  }
  if (old) old->end();
  return {};
}

}  // namespace kaon
