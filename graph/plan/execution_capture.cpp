// Plans on a GPU that are launched as one graph.
#include <algorithm>

#include "kaon/engine/buffer/device_launch.h"
#include "kaon/graph/plan/execution_plan.h"

namespace kaon {

// Addresses must recur, and neither random numbers nor the number of rows may differ from run to run.
void ExecutionPlan::prepare_capture() {
  if (options_.device.type == DeviceType::cpu || !options_.keep_arenas || options_.padded) return;
  for (PhasePlan& half : phases_) {
    half.is_captured = half.steps.size() > 1 &&
                       std::none_of(half.steps.begin(), half.steps.end(), [](const Step& s) { return s.random; });
    auto step = half.steps.begin();
    for (External& e : half.externals) {
      while (e.view >= step->first_view + step->num_inputs + step->num_outputs) ++step;
      auto found = std::find_if(half.arrays.begin(), half.arrays.end(),
                                [&](const PhaseArray& a) { return a.place == e.place && a.index == e.index; });
      if (found == half.arrays.end()) found = half.arrays.insert(found, {e.place, e.index, e.view, false, false});
      e.array = uint32_t(found - half.arrays.begin());
      const bool is_written = e.view >= step->first_view + step->num_inputs;
      found->is_written |= is_written || (e.place == Place::input && mutated_[e.index] && step->updates);
      found->is_read |= !is_written && (e.place == Place::input || !found->is_written);
    }
  }
}

bool ExecutionPlan::launch_captured(PlanRun& run, Phase phase, RunContext& context,
                                    FunctionRef<void(RunContext&)> run_steps) const {
  constexpr size_t worth_of_launch = 1 << 20;  // bytes that a GPU copies before it could begin another kernel
  const PhasePlan& half = phases_[size_t(phase)];
  run.call_arrays.clear();
  for (const PhaseArray& a : half.arrays) {
    const TensorView& v = run.views[a.view];
    run.call_arrays.push_back({v.data, v.bytes(), a.is_read, a.is_written});
  }
  const auto place_arrays = [&](auto address) {
    for (const External& e : half.externals) run.views[e.view].data = address(e.array);
  };
  context.updates_are_whole = true;  // it is launched as a whole, or not at all
  const auto work = [&](RunContext& capture, std::span<void* const> addresses) {
    place_arrays([&](uint32_t i) { return addresses[i]; });
    run_steps(capture);
  };
  const bool launched = run.captures[size_t(phase)].launch(*DeviceLaunch::current(), run.base, run.call_arrays,
                                                           half.steps.size() * worth_of_launch, work);
  place_arrays([&](uint32_t i) { return run.call_arrays[i].data; });
  if (launched) graph_launches_.fetch_add(1, std::memory_order_relaxed);  // a count: orders nothing
  return launched;
}

}  // namespace kaon
