#include "kaon/graph/plan/plan_run.h"

#include <fmt/format.h>

#include <cassert>
#include <cstring>
#include <new>
#include <utility>

#include "kaon/engine/profiler.h"
#include "kaon/engine/scheduler/op_run_context.h"
#include "kaon/ops/operator/kernel_call.h"

namespace kaon::graph {

using Step = PlanSteps::Step;

PlanRun::PlanRun(const PlanSteps& steps, size_t number, IntrusivePtr<Buffer> arena)
    : number(number),
      arena(std::move(arena)),
      views(steps.views),
      sources(steps.sources),
      states(steps.num_states),
      plan_(steps),
      saved_(steps.saved_bytes) {}

void PlanRun::place(void* at) {
  if (base == at) return;
  base = at;
  for (size_t i = 0; i < views.size(); ++i) {
    if (plan_.in_arena[i]) views[i].data = static_cast<char*>(at) + plan_.arena_offsets[i];
  }
}

void PlanRun::save(const Step& step) noexcept {
  for (uint32_t i = 0; i < step.num_saved; ++i) {
    const PlanSteps::Saved& s = plan_.saved[step.first_saved + i];
    if (s.bytes) std::memcpy(saved_.data() + s.offset, views[s.view].data, s.bytes);
  }
  num_saved_ += step.num_saved;
}

// In reverse order, so that an array that was updated twice gets its first values.
void PlanRun::restore() noexcept {
  while (num_saved_ > 0) {
    const PlanSteps::Saved& s = plan_.saved[--num_saved_];
    if (s.bytes) std::memcpy(views[s.view].data, saved_.data() + s.offset, s.bytes);
  }
}

void PlanRun::run_step(const Step& s, const RandomKey& numbers, RunContext& context, Profiler& profiler) {
  const TensorView* mine = views.data() + s.first_view;
  KernelContext kernel{.inputs = {mine, s.num_inputs},
                       .outputs = {mine + s.num_inputs, s.num_outputs},
                       .run = context,
                       .random = s.random ? RandomKey{numbers.seed, numbers.offset + s.random_offset} : RandomKey{},
                       .training = plan_.options.training,
                       .exact = plan_.options.exact,
                       .winograd = plan_.options.winograd,
                       .variant = s.node->variant,
                       .state = &states[s.state],
                       .sources = sources.empty() ? nullptr : sources.data() + s.first_view};
  if (profiler.is_on()) [[unlikely]] {
    TraceSpan span(profiler, s.node->op->name().data(), "plan");
    s.kernel(s.attrs, kernel);
  } else {
    s.kernel(s.attrs, kernel);
  }
  context.free_workspace();
}

void PlanRun::run_steps(std::span<const Step> steps, const RandomKey& numbers, RunContext& context, Shadow* compared) {
  Profiler& profiler = Engine::current().profiler();
  for (const Step& s : steps) {
    if (s.updates) [[unlikely]]
      save(s);
    context.updates_are_whole = !s.updates;
    const TensorView* mine = views.data() + s.first_view;
#ifndef NDEBUG
    for (uint32_t i = s.first_view; i < s.first_view + s.num_inputs + s.num_outputs; ++i) {
      assert(!plan_.in_arena[i] || views[i].data == static_cast<const char*>(base) + plan_.arena_offsets[i]);
    }
#endif
    try {
      if (compared) [[unlikely]]
        compared->check_inputs(plan_.number(s), mine, context);
      run_step(s, numbers, context, profiler);
      if (compared) [[unlikely]]
        compared->check_outputs(plan_.number(s), mine + s.num_inputs, context);
    } catch (...) {
      throw FailedStep{&s, std::current_exception()};
    }
  }
}

// Groups of a region are pieces of a parallel_for, which throws the failure of the first.
void PlanRun::run(Phase phase, const RandomKey& numbers, RunContext& context, Shadow* compared,
                  const PlanSteps::Stretch* stretch) {
  const PlanSteps::PhasePlan& half = plan_.phase(phase);
  const size_t end = stretch ? stretch->end_step : half.steps.size();
  const std::span<const Step> steps(half.steps.data(), end);
  if (compared) return run_steps(steps, numbers, context, compared);
  Engine& engine = Engine::current();
  size_t at = stretch ? stretch->first_step : 0;
  for (const std::vector<uint32_t>& begins : half.regions) {
    if (begins.front() < at || begins.back() > end) continue;  // of another stretch
    run_steps(steps.subspan(at, begins.front() - at), numbers, context, nullptr);
    context.updates_are_whole = true;  // none of them updates
    context.parallel_for(int64_t(begins.size()) - 1, 1, [&](int64_t group, int64_t) {
      const uint32_t first = begins[size_t(group)], last = begins[size_t(group) + 1];
      run_piece(engine,
                [&](RunContext& piece) { run_steps(steps.subspan(first, last - first), numbers, piece, nullptr); });
    });
    at = begins.back();
  }
  run_steps(steps.subspan(at), numbers, context, nullptr);
}

void PlanRun::run_nested(void* arena_memory, std::span<void* const> inputs, std::span<void* const> outputs,
                         std::span<const Source> input_sources, const RandomKey& numbers, RunContext& context) {
  place(arena_memory);
  const PlanSteps::PhasePlan& half = plan_.phase(Phase::forward);
  for (const PlanSteps::External& e : half.externals) {
    const bool is_input = e.place == Place::input;
    views[e.view].data = is_input ? inputs[e.index] : outputs[e.index];
    if (!sources.empty()) sources[e.view] = is_input && !input_sources.empty() ? input_sources[e.index] : Source();
  }
  Profiler& profiler = Engine::current().profiler();
  const Step* step = nullptr;
  try {
    for (const Step& s : half.steps) {
      step = &s;
      run_step(s, numbers, context, profiler);
    }
  } catch (...) {
    std::rethrow_exception(failure_of(*step, std::current_exception()));
  }
}

std::exception_ptr PlanRun::failure_of(const Step& step, const std::exception_ptr& why) const noexcept {
  try {
    std::vector<TensorMeta> metas;
    for (uint32_t i = 0; i < step.num_inputs + step.num_outputs; ++i) {
      const TensorView& v = views[step.first_view + i];
      metas.push_back({v.shape, v.dtype});
    }
    const std::span<const TensorMeta> all(metas);
    return add_context(why, describe_arrays(all.first(step.num_inputs), all.subspan(step.num_inputs)) +
                                fmt::format(" in node {} ({})", step.node->name, step.node->op->name()));
  } catch (const std::bad_alloc&) {
    return why;
  }
}

}  // namespace kaon::graph
