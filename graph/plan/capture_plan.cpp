#include "kaon/graph/plan/capture_plan.h"

#include <algorithm>

#include "kaon/engine/buffer/device_launch.h"
#include "kaon/graph/plan/plan_run.h"

namespace kaon::graph {

CapturePlan::CapturePlan(const PlanSteps& steps, Phase phase) : steps_(steps), phase_(phase) {
  const PlanOptions& options = steps.options;
  if (options.device.type == DeviceType::cpu || !options.keep_arenas || options.padded) return;
  const PlanSteps::PhasePlan& half = steps.phase(phase);
  is_on_ = half.steps.size() > 1 &&
           std::none_of(half.steps.begin(), half.steps.end(), [](const PlanSteps::Step& s) { return s.random; });
  auto step = half.steps.begin();
  for (const PlanSteps::External& e : half.externals) {
    while (e.view >= step->first_view + step->num_inputs + step->num_outputs) ++step;
    auto found = std::find_if(arrays_.begin(), arrays_.end(),
                              [&](const Array& a) { return a.place == e.place && a.index == e.index; });
    if (found == arrays_.end()) found = arrays_.insert(found, {e.place, e.index, e.view, false, false});
    array_of_.push_back(uint32_t(found - arrays_.begin()));
    const bool is_written = e.view >= step->first_view + step->num_inputs;
    found->is_written |= is_written || (e.place == Place::input && steps.is_updated(phase_, e.index) && step->updates);
    found->is_read |= !is_written && (e.place == Place::input || !found->is_written);
  }
}

bool CapturePlan::launch(PlanRun& run, RunContext& context, FunctionRef<void(RunContext&)> work) const {
  constexpr size_t worth_of_launch = 1 << 20;  // bytes that a GPU copies before it could begin another kernel
  const PlanSteps::PhasePlan& half = steps_.phase(phase_);
  run.call_arrays.clear();
  for (const Array& a : arrays_) {
    const TensorView& v = run.views[a.view];
    run.call_arrays.push_back({v.data, v.bytes(), a.is_read, a.is_written});
  }
  const auto place_arrays = [&](auto address) {
    for (size_t i = 0; i < half.externals.size(); ++i) run.views[half.externals[i].view].data = address(array_of_[i]);
  };
  context.updates_are_whole = true;  // it is launched as a whole, or not at all
  const auto capture = [&](RunContext& captured, std::span<void* const> addresses) {
    place_arrays([&](uint32_t i) { return addresses[i]; });
    work(captured);
  };
  const bool launched = run.captures[size_t(phase_)].launch(*DeviceLaunch::current(), run.base, run.call_arrays,
                                                            half.steps.size() * worth_of_launch, capture);
  place_arrays([&](uint32_t i) { return run.call_arrays[i].data; });
  if (launched) launches_.fetch_add(1, std::memory_order_relaxed);  // a count: orders nothing
  return launched;
}

}  // namespace kaon::graph
