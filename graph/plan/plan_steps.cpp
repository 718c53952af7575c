#include "kaon/graph/plan/plan_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/ir/update.h"
#include "kaon/graph/plan/parallel_regions.h"
#include "kaon/graph/plan_ops/pad_rows.h"
#include "kaon/ops/operator/copy_to.h"
#include "kaon/ops/operator/gpu_kernels.h"
#include "kaon/ops/operator/kernel_call.h"

namespace kaon::graph {
namespace {

Graph arranged(Graph graph, const PlanOptions& options) {
  const bool has_threads = options.device.type == DeviceType::cpu && Engine::current().stats().threads > 1;
  return options.parallel_regions && has_threads ? with_parallel_regions(std::move(graph), options.training) : graph;
}

}  // namespace

PlanSteps::PlanSteps(Graph of, const PlanOptions& with, std::optional<MemoryPlan> given)
    : graph(given ? std::move(of) : arranged(std::move(of), with)),
      memory(given ? std::move(*given) : plan_memory(graph)),
      options(with) {
#ifndef NDEBUG
  graph.validate();
  memory.check(graph);
#endif
  constexpr size_t most = UINT16_MAX - 2;  // accesses of an operation, two of which are arenas
  if (size_t arrays = graph.inputs.size() + graph.outputs.size(); arrays > most) {
    throw ValueError(
        fmt::format("[plan] a program has at most {} inputs, outputs and gradients, got {}", most, arrays));
  }
  for (auto* by_phase : {&read_in, &updated_in}) {
    for (std::vector<bool>& inputs : *by_phase) inputs.assign(graph.inputs.size(), false);
  }
  output_read.assign(graph.num_forward_outputs, false);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const OpDef* op = graph.nodes[i].op;
    if (op && !op->traits.view) add_step(i);  // a view is the same bytes: nothing to run
  }
  add_regions();
  find_saved();
  add_stretches();
  if (options.verify > 0) prepare_verification();
  find_parameters();
}

void PlanSteps::add_step(uint32_t number) {
  const Node& n = graph.nodes[number];
  PhasePlan& half = phases[size_t(n.phase)];
  Kernel kernel = n.op->cpu;
  if (options.device.type != DeviceType::cpu) {
    const GpuKernel& on_gpu = gpu_kernel(*n.op);
    if (on_gpu.prepare) on_gpu.prepare(n.attrs.get(), options.device.index);
    kernel = on_gpu.run;
  }
  Step step{.kernel = kernel,
            .attrs = n.attrs.get(),
            .node = &n,
            .first_view = uint32_t(views.size()),
            .num_inputs = uint32_t(n.inputs.size()),
            .num_outputs = uint32_t(n.outputs.size()),
            .state = num_states++,
            .random_offset = n.random_offset,
            .random = draws_numbers(*n.op, n.attrs.get(), options.training)};
  if (step.random) random_numbers = std::max(random_numbers, n.random_offset + random_draws(n.outputs[0].shape));
  for (uint32_t i = 0; i < n.inputs.size(); ++i) {
    add_view(half, n.inputs[i], n.op == &op::PadRows::def);
    step.updates |= note_read(n, i);
  }
  for (uint32_t k = 0; k < n.outputs.size(); ++k) add_view(half, {number, k}, n.op == &op::TakeRows::def);
  half.steps.push_back(step);
}

void PlanSteps::add_view(PhasePlan& half, ValueId v, bool has_rows) {
  const ValueSlot& s = memory.slot(v);
  const TensorMeta& m = graph.meta(v);
  TensorView view{nullptr, m.shape, m.dtype, graph.layout(v)};
  Source source;
  if (s.place == Place::constant) {
    NDArray& c = graph.nodes[s.index].constant;
    if (c.device() != options.device) c = copy_to(c, options.device, std::source_location::current());
    c.wait_to_read();
    view.data = c.node().data();
    source = {c.node().buffer.get(), c.node().offset};
  } else if (s.place != Place::arena) {
    half.externals.push_back({uint32_t(views.size()), s.place, s.index, has_rows});
  }
  views.push_back(view);
  if (!options.training) sources.push_back(source);
  in_arena.push_back(s.place == Place::arena);
  arena_offsets.push_back(s.offset);
}

bool PlanSteps::note_read(const Node& n, uint32_t input) {
  const ValueSlot& s = memory.slot(n.inputs[input]);
  if (s.place == Place::input) {
    read_in[size_t(n.phase)][s.index] = true;
    // A BatchNorm that predicts writes nothing, so predictions may run at the same time.
    if (passes::writes_inputs(n, options.training) && is_mutated(n.op->traits, int(input), int(n.inputs.size()))) {
      mutates = updated_in[size_t(n.phase)][s.index] = true;
      return true;
    }
  } else if (s.place == Place::output && n.phase == Phase::backward && s.index < graph.num_forward_outputs) {
    output_read[s.index] = true;
  }
  return false;
}

void PlanSteps::add_regions() {
  for (const ParallelRegion& b : graph.parallel_regions) {
    PhasePlan& half = phases[size_t(graph.nodes[b.groups[0]].phase)];
    std::vector<uint32_t>& begins = half.regions.emplace_back();
    for (uint32_t node : b.groups) {
      begins.push_back(uint32_t(std::lower_bound(half.steps.begin(), half.steps.end(), &graph.nodes[0] + node,
                                                 [](const Step& s, const Node* n) { return s.node < n; }) -
                                half.steps.begin()));
    }
  }
}

// The steps, or regions, in front of which no step reads an input of a certain group.
std::vector<uint32_t> PlanSteps::first_reads() const {
  const PhasePlan& half = phases[size_t(Phase::forward)];
  std::vector<uint32_t> steps, seen;
  for (const External& e : half.externals) {
    if (e.place != Place::input || e.index >= options.read_groups.size()) continue;
    const uint32_t group = options.read_groups[e.index];
    if (group == Update::no_group || std::find(seen.begin(), seen.end(), group) != seen.end()) continue;
    seen.push_back(group);
    const auto after = std::upper_bound(half.steps.begin(), half.steps.end(), e.view,
                                        [](uint32_t view, const Step& s) { return view < s.first_view; });
    uint32_t step = uint32_t(after - half.steps.begin()) - 1;
    for (const std::vector<uint32_t>& region : half.regions) {
      if (step > region.front() && step < region.back()) step = region.front();
    }
    steps.push_back(step);
  }
  return steps;
}

// One ends where the last output of a group is written, or with the region that it is written in, and in front of the
// first step that reads an input of a group.
void PlanSteps::add_stretches() {
  if (options.groups.empty() || options.device.type != DeviceType::cpu) return;
  const PhasePlan& half = phases[size_t(Phase::forward)];
  const size_t first_output = graph.outputs.size() - options.groups.size();
  std::vector<uint32_t> ends(*std::max_element(options.groups.begin(), options.groups.end()) + 1, 0);
  for (const External& e : half.externals) {
    if (e.place != Place::output || e.index < first_output) continue;
    const auto after = std::upper_bound(half.steps.begin(), half.steps.end(), e.view,
                                        [](uint32_t view, const Step& s) { return view < s.first_view; });
    uint32_t& end = ends[options.groups[e.index - first_output]];
    end = std::max(end, uint32_t(after - half.steps.begin()));
  }
  for (uint32_t& end : ends) {
    for (const std::vector<uint32_t>& region : half.regions) {
      if (end > region.front() && end < region.back()) end = region.back();
    }
  }
  const std::vector<uint32_t> begins = first_reads();
  ends.insert(ends.end(), begins.begin(), begins.end());
  ends.push_back(uint32_t(half.steps.size()));
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  if (ends.front() == 0) ends.erase(ends.begin());
  if (ends.size() < 2) return;
  uint32_t step = 0, external = 0;
  for (const uint32_t end : ends) {
    Stretch s{.first_step = step, .end_step = end, .first_external = external};
    s.reads.assign(graph.inputs.size(), false);
    s.updates.assign(graph.inputs.size(), false);
    s.writes_output.assign(graph.outputs.size(), false);
    s.reads_output.assign(graph.outputs.size(), false);
    for (; step < end; ++step) {
      const Step& now = half.steps[step];
      const uint32_t outputs = now.first_view + now.num_inputs;
      for (; external < half.externals.size() && half.externals[external].view < outputs + now.num_outputs;
           ++external) {
        const External& e = half.externals[external];
        if (e.place == Place::input) {
          s.reads[e.index] = true;
          if (now.updates && is_updated(Phase::forward, e.index)) s.updates[e.index] = true;
        } else {
          (e.view < outputs ? s.reads_output : s.writes_output)[e.index] = true;
        }
      }
    }
    s.end_external = external;
    s.is_last = end == half.steps.size();
    stretches.push_back(std::move(s));
  }
}

// The last step of a half either fails before it has written anything or ends the half, so only arrays that earlier
// steps update need a copy. Optimizers are last; the others are running statistics, which are small. On a GPU launches
// seldom fail, and the host cannot undo launched work.
void PlanSteps::find_saved() {
  if (!mutates || options.device.type != DeviceType::cpu) return;
  std::vector<Step>& steps = phases[size_t(Phase::forward)].steps;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    Step& s = steps[i];
    if (!s.updates) continue;
    s.first_saved = uint32_t(saved.size());
    for (uint32_t k = 0; k < s.num_inputs; ++k) {
      if (!is_mutated(s.node->op->traits, int(k), int(s.num_inputs))) continue;
      const TensorView& v = views[s.first_view + k];
      const size_t bytes = size_t(v.size()) * size_of(v.dtype);
      saved.push_back({s.first_view + k, bytes, saved_bytes});
      saved_bytes += bytes;
    }
    s.num_saved = uint32_t(saved.size()) - s.first_saved;
  }
}

void PlanSteps::prepare_verification() {
  verification = std::make_unique<Verification>(*options.program, graph, options.training, options.exact);
  for (Phase phase : {Phase::forward, Phase::backward}) {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      if (verification->reads_input(phase, i)) read_in[size_t(phase)][i] = true;
    }
  }
}

void PlanSteps::find_parameters() {
  if (!options.num_data || options.training || mutates || options.device.type != DeviceType::cpu) return;
  for (size_t i = *options.num_data; i < graph.inputs.size(); ++i) {
    if (read_in[0][i]) parameters.push_back(uint32_t(i));
  }
  for (PhasePlan& half : phases) {
    const auto others = std::stable_partition(half.externals.begin(), half.externals.end(), [&](const External& e) {
      return e.place != Place::input || !std::binary_search(parameters.begin(), parameters.end(), e.index);
    });
    half.num_others = size_t(others - half.externals.begin());
  }
}

}  // namespace kaon::graph
