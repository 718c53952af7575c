#include "kaon/graph/plan/plan_call.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "kaon/engine/buffer/device_launch.h"
#include "kaon/graph/plan/execution_plan.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::graph {
namespace {

constexpr OpType plan_call_type{.run = PlanCall::execute, .destroy = PlanCall::destroy};
constexpr OpType gpu_plan_call_type{
    .run = PlanCall::execute, .destroy = PlanCall::destroy, .serial_queue = [](const OpNode& op) noexcept -> size_t {
      return PlanCall::of(const_cast<OpNode&>(op)).run->arena->device.index;
    }};

}  // namespace

void PlanCall::push(ExecutionPlan& plan, const PlanSubmission& s, const OpLabel& label) {
  const PlanSteps& steps = plan.steps();
  PlanRun& run = s.run;
  const Phase phase = s.phase;
  uint32_t n = uint32_t(steps.graph.inputs.size() + steps.graph.outputs.size());
  std::unique_ptr<OpNode> op(OpNode::with_room(PlanCall::bytes(n)));
  op->reserve_deps(n + 2 - (s.parameters ? steps.parameters.size() : 0));  // nothing fails after this
  auto* call = new (op->behind()) PlanCall{
      IntrusivePtr<ExecutionPlan>(&plan), &run, s.saved, s.key, s.shadow, s.parameters, n, phase, s.is_last, s.stretch};
  std::fill_n(call->arrays(), n, nullptr);
  op->type = steps.options.device.type == DeviceType::gpu ? &gpu_plan_call_type : &plan_call_type;
  op->label = label;
  op->transactional = steps.mutates && phase == Phase::forward;
  op->read_lease = s.parameters.get();
  if (s.parameters) {
    for (const uint32_t i : steps.parameters) call->arrays()[i] = &s.inputs[i]->node();
  }
  size_t d = 0;
  auto add = [&](uint32_t at, const NDArray& a, AccessMode mode) {
    ArrayNode& node = a.node();
    node.retain();
    call->arrays()[at] = &node;
    op->deps[d++].set(node.buffer->var, mode);
    if (mode != AccessMode::read) node.buffer->note_write(label.site);
  };
  const size_t by_themselves = s.parameters ? *steps.options.num_data : s.inputs.size();
  for (uint32_t i = 0; i < by_themselves; ++i) {
    const bool updates = s.stretch ? s.stretch->updates[i] : steps.is_updated(phase, i);
    if (s.stretch ? s.stretch->reads[i] : steps.is_read(phase, i))
      add(i, *s.inputs[i], updates ? AccessMode::update : AccessMode::read);
  }
  uint32_t out = uint32_t(steps.graph.inputs.size());
  for (uint32_t i = 0; i < s.forward_outputs.size(); ++i) {
    if (steps.output_read[i]) add(out + i, s.forward_outputs[i], AccessMode::read);
  }
  uint32_t first = phase == Phase::forward ? 0 : steps.graph.num_forward_outputs;
  for (uint32_t i = 0; i < s.results.size(); ++i) {
    if (s.stretch && !s.stretch->writes_output[i]) {
      if (s.stretch->reads_output[i]) add(out + i, s.results[i], AccessMode::read);
      continue;
    }
    add(out + first + i, s.results[i], AccessMode::write);
  }
  // A forward overwrites the arena also after a failure; a backward, and a later stretch, needs what is there.
  bool overwrites = (phase == Phase::forward && (!s.stretch || s.stretch->first_step == 0)) || s.saved;
  op->deps[d++].set(run.arena->var, overwrites ? AccessMode::write : AccessMode::update);
  if (s.saved) op->deps[d++].set(s.saved->var, AccessMode::read);
  op->num_deps = uint16_t(d);
  Engine::current().submit(*op.release());
}

void PlanCall::destroy(OpNode& op) noexcept {
  PlanCall* c = &of(op);
  const PlanSteps& steps = c->plan->steps();
  const auto release = [c](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      if (ArrayNode* a = c->arrays()[i]) a->release();
    }
  };
  release(0, c->parameters ? *steps.options.num_data : c->num_arrays);
  if (c->parameters) release(steps.graph.inputs.size(), c->num_arrays);
  // it has failed or never run, or its backward has been dropped
  if (!c->has_given_back && (!c->stretch || c->stretch->is_last)) c->plan->give_back_unused(*c->run);
  c->~PlanCall();
}

void PlanCall::execute(OpNode& op, RunContext& context) {
  PlanCall& c = of(op);
  const PlanSteps& steps = c.plan->steps();
  context.updates_are_whole = true;
  if (steps.options.device.type != DeviceType::cpu) [[unlikely]]
    return c.launch(op, context);
  const size_t bytes = steps.memory.arena_bytes;
  if (c.saved) std::memcpy(c.run->arena->ensure(bytes), c.saved->ensure(), bytes);
  c.run_phase(op, context);
  if (c.has_given_back) c.run->arena->give_back();
}

// The arrays' order is that of the launch, which is the operation's end for the engine.
void PlanCall::launch(OpNode& op, RunContext& context) {
  const PlanSteps& steps = plan->steps();
  {
    DeviceLaunch launch(Gpu::of(steps.options.device), Lane::compute, op.label);
    launch.use(*run->arena, true);
    if (saved) launch.use(*saved, false);
    const size_t inputs = steps.graph.inputs.size(), read = inputs + steps.graph.num_forward_outputs;
    for (size_t i = 0; i < num_arrays; ++i) {
      if (ArrayNode* a = arrays()[i]) {
        const bool is_forward = phase == Phase::forward;
        launch.use(*a->buffer, i < inputs ? steps.is_updated(phase, i) : is_forward || i >= read);
      }
    }
    try {
      if (saved) {
        void* base = run->arena->ensure(steps.memory.arena_bytes);
        launch.gpu().driver.copy(base, saved->ensure(), steps.memory.arena_bytes, *launch.stream());
      }
      run_phase(op, launch);
    } catch (...) {
      context.updates_are_whole = launch.updates_are_whole;
      throw;
    }
  }
  if (has_given_back) run->arena->give_back();
}

// A backward continues from the values of its forward, as other backwards may.
IntrusivePtr<Shadow> PlanCall::begin_shadow() const {
  if (!shadow) [[likely]]
    return {};
  IntrusivePtr<Shadow> s = phase == Phase::forward ? shadow : IntrusivePtr<Shadow>(new Shadow(*shadow));
  s->begin(phase, {arrays(), plan->steps().graph.inputs.size()}, key);
  return s;
}

void PlanCall::set_externals(const OpNode& op) {
  const PlanSteps& steps = plan->steps();
  const PlanSteps::PhasePlan& half = steps.phase(phase);
  // parameters under the same shared read lease have the same addresses
  const uint64_t lease = op.read_lease ? parameters->number : 0;
  const bool are_shown = lease != 0 && run->parameters == lease;
  TensorView* views = run->views.data();
  const size_t begin = stretch ? stretch->first_external : 0;
  const size_t end = stretch ? stretch->end_external : are_shown ? half.num_others : half.externals.size();
  for (const PlanSteps::External& e : std::span(half.externals).subspan(begin, end - begin)) {
    ArrayNode* a = arrays()[e.place == Place::input ? e.index : steps.graph.inputs.size() + e.index];
    views[e.view].data = a->data();
    if (e.has_rows) views[e.view].shape = a->shape;
    // arrays that this operation itself writes may change during it, the program's own between operations
    const bool is_stable = e.place == Place::input && !steps.is_updated(phase, e.index) &&
                           !a->buffer->is_programs.load(std::memory_order_relaxed);
    if (!run->sources.empty()) run->sources[e.view] = is_stable ? Source{a->buffer.get(), a->offset} : Source();
  }
  if (!are_shown) run->parameters = lease;
}

// Outputs computed before the failing node do not fail. A plan that updates in place is all or nothing, as any
// operation.
void PlanCall::spare_finished(OpNode& op, const Node& failing) const {
  if (op.transactional) return;
  op.transactional = true;
  const PlanSteps& steps = plan->steps();
  const size_t number = size_t(&failing - steps.graph.nodes.data());
  for (size_t i = 0; i < steps.graph.outputs.size(); ++i) {
    const ArrayNode* output = arrays()[steps.graph.inputs.size() + i];
    if (!output || steps.memory.slot(steps.graph.outputs[i]).root.node >= number) continue;
    for (Dep& d : std::span(op.deps, op.num_deps)) {
      if (d.var() != &output->buffer->var || d.mode() != AccessMode::write) continue;
      d.set_mode(AccessMode::update);
      d.var()->set_error(nullptr);  // of an earlier write
    }
  }
}

void PlanCall::run_phase(OpNode& op, RunContext& context) {
  context.updates_are_whole = true;  // until a step that updates: there may be no memory to begin
  const PlanSteps& steps = plan->steps();
  run->begin();
  run->place(run->arena->ensure(steps.memory.arena_bytes));
  set_externals(op);
  const IntrusivePtr<Shadow> compared = begin_shadow();
  const PlanSteps::Step* failed = nullptr;
  try {
    try {
      const auto all = [&](RunContext& where) { run->run(phase, key, where, compared.get(), stretch); };
      const CapturePlan& capture = plan->capture(phase);
      if (!capture.is_on() || !capture.launch(*run, context, all)) all(context);
    } catch (const FailedStep& f) {
      failed = f.step;
      std::rethrow_exception(f.why);
    }
    if (compared) [[unlikely]]
      compared->finish(context);
  } catch (const VerifyError&) {
    compared->undo();
    context.updates_are_whole = true;
    plan->verify_all();
    const std::vector<PlanSteps::Step>& all = steps.phase(phase).steps;
    if (!failed && !all.empty()) failed = &all.back();
    if (failed) spare_finished(op, *failed->node);
    throw;
  } catch (...) {
    run->restore();
    if (compared) compared->undo();
    // saved arrays have been restored; only the last step updates without a copy
    if (!failed || !failed->updates || failed->num_saved) context.updates_are_whole = true;
    if (!failed) throw;
    spare_finished(op, *failed->node);
    std::rethrow_exception(run->failure_of(*failed, std::current_exception()));
  }
  if ((!stretch || stretch->is_last) && !plan->choices().are_known(phase)) [[unlikely]] {
    plan->choices().note(steps, phase, *run);
  }
  has_given_back = is_last && !steps.options.keep_arenas;
}

}  // namespace kaon::graph
