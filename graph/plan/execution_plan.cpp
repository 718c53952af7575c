#include "kaon/graph/plan/execution_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <climits>
#include <cstring>
#include <mutex>
#include <utility>

#include "kaon/engine/buffer/device_launch.h"
#include "kaon/engine/operation/op_node.h"
#include "kaon/engine/profiler.h"
#include "kaon/engine/scheduler/op_run_context.h"
#include "kaon/graph/plan/branches.h"
#include "kaon/graph/plan/bucket.h"
#include "kaon/ops/operator/copy_to.h"
#include "kaon/ops/operator/gpu_kernels.h"
#include "kaon/ops/operator/kernel_call.h"
#include "kaon/ops/random_state.h"

namespace kaon {
namespace {

Graph arranged(Graph graph, const PlanOptions& options) {
  const bool has_threads = options.device.type == DeviceType::cpu && Engine::current().stats().threads > 1;
  return options.branches && has_threads ? with_branches(std::move(graph), options.training) : graph;
}

}  // namespace

ExecutionPlan::ExecutionPlan(Graph graph, const PlanOptions& options, std::optional<MemoryPlan> memory)
    : graph_(memory ? std::move(graph) : arranged(std::move(graph), options)),
      memory_(memory ? std::move(*memory) : plan_memory(graph_)),
      options_(options) {
  if (!options_.arenas) options_.arenas = IntrusivePtr<PlanArenas>(new PlanArenas);
#ifndef NDEBUG
  graph_.validate();
  memory_.check(graph_);
#endif
  constexpr size_t most = UINT16_MAX - 2;  // accesses of an operation, two of which are arenas
  if (size_t arrays = graph_.inputs.size() + graph_.outputs.size(); arrays > most) {
    throw ValueError(
        fmt::format("[plan] a program has at most {} inputs, outputs and gradients, got {}", most, arrays));
  }
  mutated_.assign(graph_.inputs.size(), false);
  for (auto& r : read_in_) r.assign(graph_.inputs.size(), false);
  output_read_.assign(graph_.num_forward_outputs, false);
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const OpDef* op = graph_.nodes[i].op;
    if (op && !op->traits.view) add_step(i);  // a view is the same bytes: nothing to run
  }
  for (const Branches& b : graph_.branches) {
    PhasePlan& half = phases_[size_t(graph_.nodes[b.groups[0]].phase)];
    std::vector<uint32_t>& begins = half.branches.emplace_back();
    for (uint32_t node : b.groups) {
      begins.push_back(uint32_t(std::lower_bound(half.steps.begin(), half.steps.end(), &graph_.nodes[0] + node,
                                                 [](const Step& s, const Node* n) { return s.node < n; }) -
                                half.steps.begin()));
    }
  }
  prepare_capture();
  find_saved();
  if (options_.verify > 0) {
    verification_ = std::make_unique<Verification>(*options_.program, graph_, options_.training, options_.exact);
    to_verify_ = options_.verify;
    for (Phase phase : {Phase::forward, Phase::backward}) {
      for (size_t i = 0; i < graph_.inputs.size(); ++i) {
        if (verification_->reads_input(phase, i)) read_in_[size_t(phase)][i] = true;
      }
    }
  }
  find_parameters();
}

void ExecutionPlan::add_step(uint32_t number) {
  const Node& n = graph_.nodes[number];
  PhasePlan& half = phases_[size_t(n.phase)];
  Kernel kernel = n.op->cpu;
  if (options_.device.type != DeviceType::cpu) {
    const GpuKernel& on_gpu = gpu_kernel(*n.op);
    if (on_gpu.prepare) on_gpu.prepare(n.attrs.get(), options_.device.index);
    kernel = on_gpu.run;
  }
  Step step{.kernel = kernel,
            .attrs = n.attrs.get(),
            .node = &n,
            .first_view = uint32_t(views_.size()),
            .num_inputs = uint32_t(n.inputs.size()),
            .num_outputs = uint32_t(n.outputs.size()),
            .state = num_states_++,
            .random_offset = n.random_offset,
            .random = draws_numbers(*n.op, n.attrs.get(), options_.training)};
  if (step.random) random_numbers_ = std::max(random_numbers_, n.random_offset + random_draws(n.outputs[0].shape));
  for (uint32_t i = 0; i < n.inputs.size(); ++i) {
    add_view(half, n.inputs[i], n.op == &PadRows::def);
    step.updates |= note_read(n, i);
  }
  for (uint32_t k = 0; k < n.outputs.size(); ++k) add_view(half, {number, k}, n.op == &TakeRows::def);
  half.steps.push_back(step);
}

void ExecutionPlan::add_view(PhasePlan& half, ValueId v, bool has_rows) {
  const ValueSlot& s = memory_.slot(v);
  const TensorMeta& m = graph_.meta(v);
  TensorView view{nullptr, m.shape, m.dtype, graph_.layout(v)};
  Source source;
  if (s.place == Place::constant) {
    NDArray& c = graph_.nodes[s.index].constant;
    if (c.device() != options_.device) c = copy_to(c, options_.device, std::source_location::current());
    c.wait_to_read();
    view.data = c.node().data();
    source = {c.node().buffer.get(), c.node().offset};
  } else if (s.place != Place::arena) {
    half.externals.push_back({uint32_t(views_.size()), s.place, s.index, has_rows});
  }
  views_.push_back(view);
  if (!options_.training) sources_.push_back(source);
  in_arena_.push_back(s.place == Place::arena);
  arena_offsets_.push_back(s.offset);
}

bool ExecutionPlan::note_read(const Node& n, uint32_t input) {
  const ValueSlot& s = memory_.slot(n.inputs[input]);
  if (s.place == Place::input) {
    read_in_[size_t(n.phase)][s.index] = true;
    // Operators that depend on the mode (BatchNorm) update in training only, so predictions may run at the same time.
    bool may_update = options_.training || !n.op->traits.mode_dependent;
    if (may_update && is_mutated(n.op->traits, int(input), int(n.inputs.size()))) {
      mutates_ = mutated_[s.index] = true;
      return true;
    }
  } else if (s.place == Place::output && n.phase == Phase::backward && s.index < graph_.num_forward_outputs) {
    output_read_[s.index] = true;
  }
  return false;
}

// The arguments of one submission, in the operation's trailing storage: {PlanCall, arrays...}. Arrays: inputs, forward
// outputs, gradients; null if this phase does not use one.
struct PlanCall {
  IntrusivePtr<ExecutionPlan> plan;
  PlanRun* run;
  IntrusivePtr<Buffer> saved;  // when defined: the arena's initial contents are copied from here
  RandomKey key;
  IntrusivePtr<Shadow> shadow;              // null: not verified
  IntrusivePtr<ParameterLease> parameters;  // defined: it, not the call, keeps these arrays
  uint32_t num_arrays;
  Phase phase;
  bool is_last;  // nothing reads the arena after this
  bool has_given_back = false;

  ArrayNode** arrays() const { return reinterpret_cast<ArrayNode**>(const_cast<PlanCall*>(this) + 1); }
  static size_t bytes(uint32_t n) { return sizeof(PlanCall) + n * sizeof(ArrayNode*); }
  // The imperative run of this call. A backward continues from the values of its forward, as other backwards may.
  IntrusivePtr<Shadow> begin_shadow(size_t num_inputs) const {
    if (!shadow) [[likely]]
      return {};
    IntrusivePtr<Shadow> s = phase == Phase::forward ? shadow : IntrusivePtr<Shadow>(new Shadow(*shadow));
    s->begin(phase, {arrays(), num_inputs}, key);
    return s;
  }
  static PlanCall& of(OpNode& op) { return *static_cast<PlanCall*>(op.behind()); }
  static void execute(OpNode& op, RunContext& context) {
    PlanCall& c = of(op);
    c.plan->execute(op, c, context);
  }
  static void destroy(OpNode& op) noexcept {
    PlanCall* c = &of(op);
    const auto release = [c](size_t first, size_t last) {
      for (size_t i = first; i < last; ++i) {
        if (ArrayNode* a = c->arrays()[i]) a->release();
      }
    };
    release(0, c->parameters ? *c->plan->options_.num_data : c->num_arrays);
    if (c->parameters) release(c->plan->graph_.inputs.size(), c->num_arrays);
    // it has failed or never run, or its backward has been dropped
    if (!c->has_given_back) c->plan->give_back_unused(*c->run);
    c->~PlanCall();
  }
};

namespace {
constexpr OpType plan_call_type{.run = PlanCall::execute, .destroy = PlanCall::destroy};
constexpr OpType gpu_plan_call_type{
    .run = PlanCall::execute, .destroy = PlanCall::destroy, .serial_queue = [](const OpNode& op) noexcept -> size_t {
      return PlanCall::of(const_cast<OpNode&>(op)).run->arena->device.index;
    }};
}  // namespace

void ExecutionPlan::push(const Submission& s, const OpLabel& label) {
  PlanRun& run = s.run;
  const Phase phase = s.phase;
  uint32_t n = uint32_t(graph_.inputs.size() + graph_.outputs.size());
  std::unique_ptr<OpNode> op(OpNode::with_room(PlanCall::bytes(n)));
  op->reserve_deps(n + 2 - (s.parameters ? parameters_.size() : 0));  // nothing fails after this
  auto* call = new (op->behind())
      PlanCall{IntrusivePtr<ExecutionPlan>(this), &run, s.saved, s.key, s.shadow, s.parameters, n, phase, s.is_last};
  std::fill_n(call->arrays(), n, nullptr);
  op->type = options_.device.type == DeviceType::gpu ? &gpu_plan_call_type : &plan_call_type;
  op->label = label;
  op->transactional = mutates_ && phase == Phase::forward;
  op->read_lease = s.parameters.get();
  if (s.parameters) {
    for (const uint32_t i : parameters_) call->arrays()[i] = &s.inputs[i]->node();
  }
  size_t d = 0;
  auto add = [&](uint32_t at, const NDArray& a, AccessMode mode) {
    ArrayNode& node = a.node();
    node.retain();
    call->arrays()[at] = &node;
    op->deps[d++].set(node.buffer->var, mode);
    if (mode != AccessMode::read) node.buffer->note_write(label.site);
  };
  const size_t by_themselves = s.parameters ? *options_.num_data : s.inputs.size();
  for (uint32_t i = 0; i < by_themselves; ++i) {
    bool updates = mutated_[i] && phase == Phase::forward;
    if (read_in_[size_t(phase)][i]) add(i, *s.inputs[i], updates ? AccessMode::update : AccessMode::read);
  }
  uint32_t out = uint32_t(graph_.inputs.size());
  for (uint32_t i = 0; i < s.forward_outputs.size(); ++i) {
    if (output_read_[i]) add(out + i, s.forward_outputs[i], AccessMode::read);
  }
  uint32_t first = phase == Phase::forward ? 0 : graph_.num_forward_outputs;
  for (uint32_t i = 0; i < s.results.size(); ++i) add(out + first + i, s.results[i], AccessMode::write);
  // A forward overwrites the arena also after a failure; a backward needs the values of its forward.
  bool overwrites = phase == Phase::forward || s.saved;
  op->deps[d++].set(run.arena->var, overwrites ? AccessMode::write : AccessMode::update);
  if (s.saved) op->deps[d++].set(s.saved->var, AccessMode::read);
  op->num_deps = uint16_t(d);
  Engine::current().submit(*op.release());
}

PlanRun& ExecutionPlan::forward(std::span<const NDArray* const> inputs, std::span<NDArray> outputs,
                                const OpLabel& label, bool lease, IntrusivePtr<Shadow> shadow,
                                const RandomKey* numbers) {
  make_arrays(0, inputs.empty() ? Device() : inputs[0]->device(), outputs, options_.padded ? inputs[0]->shape()[0] : 0);
  RandomKey key = numbers ? *numbers : random_numbers_ ? random::draw(random_numbers_) : RandomKey{};
  IntrusivePtr<ParameterLease> parameters = lease ? IntrusivePtr<ParameterLease>() : read_parameters(inputs);
  PlanRun& run = acquire();
  if (lease) run.key = key, run.shadow = shadow;  // else the run is not written to: a worker reads it
  push_leased({.run = run,
               .phase = Phase::forward,
               .inputs = inputs,
               .results = outputs,
               .key = key,
               .shadow = std::move(shadow),
               .is_last = !lease,
               .parameters = std::move(parameters)},
              label);
  if (!lease) end_lease(run);
  return run;
}

void ExecutionPlan::backward(PlanRun& run, std::span<const NDArray* const> arrays, std::span<const NDArray> outputs,
                             std::span<NDArray> results, const OpLabel& label, bool retain) {
  make_arrays(graph_.num_forward_outputs, arrays.back()->device(), results);
  // The backward reuses the memory of the saved values: with `retain` it runs on a copy of the arena.
  PlanRun& own = retain ? acquire() : run;
  const Submission submission{.run = own,
                              .phase = Phase::backward,
                              .inputs = arrays,
                              .forward_outputs = outputs,
                              .results = results,
                              .saved = retain ? run.arena : IntrusivePtr<Buffer>(),
                              .shadow = run.shadow,
                              .is_last = true};
  if (!retain) return push(submission, label);
  push_leased(submission, label);
  end_lease(own);
}

IntrusivePtr<Shadow> ExecutionPlan::next_shadow() {
  if (to_verify_ <= 0 || to_verify_.fetch_sub(1) <= 0) return {};
  return IntrusivePtr<Shadow>(new Shadow(*verification_));
}

// Outputs computed before the failing node do not fail. A plan that updates in place is all or nothing, as any
// operation.
void ExecutionPlan::spare_finished(OpNode& op, const PlanCall& call, const Node& failing) const {
  if (op.transactional) return;
  op.transactional = true;
  const size_t number = size_t(&failing - graph_.nodes.data());
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const ArrayNode* output = call.arrays()[graph_.inputs.size() + i];
    if (!output || memory_.slot(graph_.outputs[i]).root.node >= number) continue;
    for (Dep& d : std::span(op.deps, op.num_deps)) {
      if (d.var() != &output->buffer->var || d.mode() != AccessMode::write) continue;
      d.set_mode(AccessMode::update);
      d.var()->set_error(nullptr);  // of an earlier write
    }
  }
}

namespace {
// A step's failure, thrown up to run_all, which adds its origin.
struct FailedStep {
  const void* step;
  std::exception_ptr why;
};
}  // namespace
void ExecutionPlan::place(PlanRun& run, void* base) const {
  if (run.base == base) return;
  run.base = base;
  for (size_t i = 0; i < run.views.size(); ++i) {
    if (in_arena_[i]) run.views[i].data = static_cast<char*>(base) + arena_offsets_[i];
  }
}

void ExecutionPlan::run_step(const Step& s, PlanRun& run, const RandomKey& key, RunContext& context,
                             Profiler& profiler) const {
  const TensorView* views = run.views.data() + s.first_view;
  KernelContext kernel{.inputs = {views, s.num_inputs},
                       .outputs = {views + s.num_inputs, s.num_outputs},
                       .run = context,
                       .random = s.random ? RandomKey{key.seed, key.offset + s.random_offset} : RandomKey{},
                       .training = options_.training,
                       .exact = options_.exact,
                       .winograd = options_.winograd,
                       .variant = s.node->variant,
                       .state = &run.states[s.state],
                       .sources = run.sources.empty() ? nullptr : run.sources.data() + s.first_view};
  if (profiler.is_on()) [[unlikely]] {
    TraceSpan span(profiler, s.node->op->name().data(), "plan");
    s.kernel(s.attrs, kernel);
  } else {
    s.kernel(s.attrs, kernel);
  }
  context.free_workspace();
}

void ExecutionPlan::run_steps(std::span<const Step> steps, const PlanCall& call, RunContext& context,
                              Shadow* shadow) const {
  PlanRun& run = *call.run;
  Profiler& profiler = Engine::current().profiler();
  const auto number = [&](const Step& s) { return uint32_t(s.node - graph_.nodes.data()); };
  for (const Step& s : steps) {
    if (s.updates) [[unlikely]]
      save(s, run);
    context.updates_are_whole = !s.updates;
    const TensorView* views = run.views.data() + s.first_view;
#ifndef NDEBUG
    for (uint32_t i = s.first_view; i < s.first_view + s.num_inputs + s.num_outputs; ++i) {
      assert(!in_arena_[i] || run.views[i].data == static_cast<const char*>(run.base) + arena_offsets_[i]);
    }
#endif
    try {
      if (shadow) [[unlikely]]
        shadow->check_inputs(number(s), views, context);
      run_step(s, run, call.key, context, profiler);
      if (shadow) [[unlikely]]
        shadow->check_outputs(number(s), views + s.num_inputs, context);
    } catch (...) {
      throw FailedStep{&s, std::current_exception()};
    }
  }
}

// Groups of branches are pieces of a parallel_for, which throws the failure of the first. A verified run is in order.
void ExecutionPlan::run_all(const PlanCall& call, RunContext& context, Shadow* shadow) const {
  const PhasePlan& half = phases_[size_t(call.phase)];
  const std::span<const Step> steps = half.steps;
  if (shadow) return run_steps(steps, call, context, shadow);
  Engine& engine = Engine::current();
  size_t at = 0;
  for (const std::vector<uint32_t>& begins : half.branches) {
    run_steps(steps.subspan(at, begins.front() - at), call, context, nullptr);
    context.updates_are_whole = true;  // none of them updates
    context.parallel_for(int64_t(begins.size()) - 1, 1, [&](int64_t group, int64_t) {
      const uint32_t first = begins[size_t(group)], last = begins[size_t(group) + 1];
      run_piece(engine,
                [&](RunContext& piece) { run_steps(steps.subspan(first, last - first), call, piece, nullptr); });
    });
    at = begins.back();
  }
  run_steps(steps.subspan(at), call, context, nullptr);
}

// The arrays' order is that of the launch, which is the operation's end for the engine.
void ExecutionPlan::launch(OpNode& op, PlanCall& call, RunContext& context) const {
  {
    DeviceLaunch launch(Gpu::of(options_.device), Lane::compute, op.label);
    launch.use(*call.run->arena, true);
    if (call.saved) launch.use(*call.saved, false);
    const size_t inputs = graph_.inputs.size(), read = inputs + graph_.num_forward_outputs;
    for (size_t i = 0; i < call.num_arrays; ++i) {
      if (ArrayNode* a = call.arrays()[i]) {
        const bool is_forward = call.phase == Phase::forward;
        launch.use(*a->buffer, i < inputs ? is_forward && mutated_[i] : is_forward || i >= read);
      }
    }
    try {
      if (call.saved) {
        void* base = call.run->arena->ensure(memory_.arena_bytes);
        launch.gpu().driver.copy(base, call.saved->ensure(), memory_.arena_bytes, *launch.stream());
      }
      run(op, call, launch);
    } catch (...) {
      context.updates_are_whole = launch.updates_are_whole;
      throw;
    }
  }
  if (call.has_given_back) call.run->arena->give_back();
}

void ExecutionPlan::execute(OpNode& op, PlanCall& call, RunContext& context) const {
  context.updates_are_whole = true;
  if (options_.device.type != DeviceType::cpu) [[unlikely]]
    return launch(op, call, context);
  if (call.saved) std::memcpy(call.run->arena->ensure(memory_.arena_bytes), call.saved->ensure(), memory_.arena_bytes);
  run(op, call, context);
  if (call.has_given_back) call.run->arena->give_back();
}

void ExecutionPlan::run(OpNode& op, PlanCall& call, RunContext& context) const {
  context.updates_are_whole = true;  // until a step that updates: there may be no memory to begin
  PlanRun& run = *call.run;
  run.num_saved = 0;
  TensorView* views = run.views.data();
  void* base = run.arena->ensure(memory_.arena_bytes);
  place(run, base);
  const PhasePlan& half = phases_[size_t(call.phase)];
  // parameters under the same shared read lease have the same addresses
  const uint64_t parameters = op.read_lease ? call.parameters->number : 0;
  const bool are_shown = parameters != 0 && run.parameters == parameters;
  for (const External& e : std::span(half.externals).first(are_shown ? half.num_others : half.externals.size())) {
    ArrayNode* a = call.arrays()[e.place == Place::input ? e.index : graph_.inputs.size() + e.index];
    views[e.view].data = a->data();
    if (e.has_rows) views[e.view].shape = a->shape;
    // arrays that this operation itself writes may change during it
    const bool is_stable = e.place == Place::input && !mutated_[e.index];
    if (!run.sources.empty()) run.sources[e.view] = is_stable ? Source{a->buffer.get(), a->offset} : Source();
  }
  if (!are_shown) run.parameters = parameters;
  const IntrusivePtr<Shadow> shadow = call.begin_shadow(graph_.inputs.size());
  const Step* failed = nullptr;
  try {
    try {
      const auto all = [&](RunContext& where) { run_all(call, where, shadow.get()); };
      if (!half.is_captured || !launch_captured(run, call.phase, context, all)) all(context);
    } catch (const FailedStep& f) {
      failed = static_cast<const Step*>(f.step);
      std::rethrow_exception(f.why);
    }
    if (shadow) [[unlikely]]
      shadow->finish(context);
  } catch (const VerifyError&) {
    shadow->undo();
    context.updates_are_whole = true;
    call.plan->to_verify_ = INT_MAX;
    if (!failed && !half.steps.empty()) failed = &half.steps.back();
    if (failed) spare_finished(op, call, *failed->node);
    throw;
  } catch (...) {
    restore(run);
    if (shadow) shadow->undo();
    // saved arrays have been restored; only the last step updates without a copy
    if (!failed || !failed->updates || failed->num_saved) context.updates_are_whole = true;
    if (!failed) throw;
    spare_finished(op, call, *failed->node);
    std::rethrow_exception(failure_of(*failed, run, std::current_exception()));
  }
  // pairs with nothing: a run that sees an old value looks again, under the lock
  if (!choices_[size_t(call.phase)].are_known.load(std::memory_order_relaxed)) [[unlikely]] {
    note_choices(call.phase, run);
  }
  call.has_given_back = call.is_last && !options_.keep_arenas;
}

}  // namespace kaon
