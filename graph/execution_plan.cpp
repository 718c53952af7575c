#include "kaon/graph/execution_plan.h"

#include <cassert>
#include <mutex>

#include "kaon/engine/trace.h"
#include "kaon/ops/kernel_call.h"
#include "kaon/ops/random_state.h"

namespace kaon {

ExecutionPlan::ExecutionPlan(Graph graph, bool training, bool exact)
    : graph_(std::move(graph)), memory_(plan_memory(graph_)), training_(training), exact_(exact) {
#ifndef NDEBUG
  graph_.validate();
  memory_.check(graph_);
#endif
  mutated_.assign(graph_.inputs.size(), false);
  for (auto& r : read_in_) r.assign(graph_.inputs.size(), false);
  output_read_.assign(graph_.num_forward_outputs, false);
  for (Node& n : graph_.nodes) {
    if (!n.op) continue;
    if (n.op->traits.view) continue;  // same bytes: nothing to run
    Half& half = halves_[size_t(n.phase)];
    Step step{.kernel = n.op->cpu,
              .attrs = n.attrs.get(),
              .name = n.op->name().data(),
              .first_view = uint32_t(views_.size()),
              .num_inputs = uint16_t(n.inputs.size()),
              .num_outputs = uint16_t(n.outputs.size()),
              .state = num_states_++,
              .random_offset = random_numbers_,
              .random = n.op->traits_of(n.attrs.get()).random};
    if (step.random) random_numbers_ += random_draws(n.outputs[0].shape);
    uint32_t self = uint32_t(&n - graph_.nodes.data());
    auto add_view = [&](ValueId v) {
      const ValueSlot& s = memory_.slot(v);
      const TensorMeta& m = graph_.meta(v);
      TensorView view{nullptr, m.shape, m.dtype, graph_.layout(v)};
      if (s.place == Place::constant) {
        NDArray& c = graph_.nodes[s.index].constant;
        c.wait_to_read();
        view.data = c.node().data();
      } else if (s.place != Place::arena) {
        half.externals.push_back({uint32_t(views_.size()), s.place, s.index});
      }
      views_.push_back(view);
      in_arena_.push_back(s.place == Place::arena);
      arena_offsets_.push_back(s.offset);
    };
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      add_view(n.inputs[i]);
      const ValueSlot& s = memory_.slot(n.inputs[i]);
      if (s.place == Place::input) {
        read_in_[size_t(n.phase)][s.index] = true;
        if (is_mutated(n.op->traits, int(i), int(n.inputs.size()))) mutated_[s.index] = true;
      } else if (s.place == Place::output && n.phase == Phase::backward && s.index < graph_.num_forward_outputs) {
        output_read_[s.index] = true;
      }
    }
    for (uint32_t k = 0; k < n.outputs.size(); ++k) add_view({self, k});
    half.steps.push_back(step);
  }
}

size_t ExecutionPlan::num_arenas() const {
  std::lock_guard lock(lock_);
  return runs_.size();
}

PlanRun& ExecutionPlan::acquire(bool lease) {
  // Enough runs that one can be queued while others execute; beyond that, runs on one arena follow one another.
  constexpr size_t enough = 2;
  std::lock_guard lock(lock_);
  PlanRun* found = nullptr;
  for (size_t i = 0; i < runs_.size() && !found; ++i) {
    PlanRun& r = *runs_[(next_run_ + i) % runs_.size()];
    if (r.leased) continue;
    Var& var = r.arena->var;
    var.lock();
    bool idle = var.is_idle();
    var.unlock();
    if (idle || runs_.size() >= enough) found = &r;
  }
  if (!found) {
    runs_.push_back(std::make_unique<PlanRun>());
    found = runs_.back().get();
    found->arena = IntrusivePtr<Chunk>(new Chunk(memory_.arena_bytes, Device(), Engine::current()));
    found->views = views_;
    found->states.resize(num_states_);
  }
  ++next_run_;
  found->leased = lease;
  return *found;
}

void ExecutionPlan::end_lease(PlanRun& run) {
  std::lock_guard lock(lock_);
  run.leased = false;
}

std::vector<NDArray> ExecutionPlan::make_outputs(size_t first, size_t last, Device device) const {
  std::vector<NDArray> made;
  for (size_t i = first; i < last; ++i) {
    const TensorMeta& m = graph_.meta(graph_.outputs[i]);
    made.push_back(NDArray::empty(m.shape, m.dtype, device));
  }
  return made;
}

// The arguments of one submission, in one pooled block: {PlanCall, arrays...}. Arrays: inputs, forward outputs,
// gradients; null where this phase uses none.
struct PlanCall {
  IntrusivePtr<ExecutionPlan> plan;
  PlanRun* run;
  IntrusivePtr<Chunk> arena;
  RandomKey key;
  uint32_t num_arrays;
  Phase phase;

  ArrayNode** arrays() { return reinterpret_cast<ArrayNode**>(this + 1); }
  static size_t bytes(uint32_t n) { return sizeof(PlanCall) + n * sizeof(ArrayNode*); }
  static PlanCall& of(OpNode& op) { return **reinterpret_cast<PlanCall**>(op.payload); }
  static void execute(OpNode& op, RunContext& context) {
    PlanCall& c = of(op);
    c.plan->execute(*c.run, c.plan->halves_[size_t(c.phase)], c.arrays(), c.key, context);
  }
  static void destroy(OpNode& op) noexcept {
    PlanCall* c = &of(op);
    for (uint32_t i = 0; i < c->num_arrays; ++i) {
      if (ArrayNode* a = c->arrays()[i]) a->release();
    }
    size_t size = bytes(c->num_arrays);
    c->~PlanCall();
    pool_free(c, size);
  }
};

namespace {
constexpr OpType plan_call_type{.run = PlanCall::execute, .destroy = PlanCall::destroy};
}

void ExecutionPlan::push(PlanRun& run, Phase phase, std::span<const NDArray* const> inputs,
                         std::span<const NDArray> forward_outputs, std::span<const NDArray> results, const OpLabel& label,
                         RandomKey key) {
  uint32_t n = uint32_t(graph_.inputs.size() + graph_.outputs.size());
  auto* call = new (pool_allocate(PlanCall::bytes(n)))
      PlanCall{IntrusivePtr<ExecutionPlan>(this), &run, run.arena, key, n, phase};
  std::fill_n(call->arrays(), n, nullptr);
  auto* op = new OpNode;
  *reinterpret_cast<PlanCall**>(op->payload) = call;
  op->type = &plan_call_type;
  op->label = label;
  op->reserve_deps(n + 1);
  size_t d = 0;
  auto add = [&](uint32_t at, const NDArray& a, AccessMode mode) {
    ArrayNode& node = a.node();
    node.retain();
    call->arrays()[at] = &node;
    op->deps[d++].set(node.chunk->var, mode);
  };
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    if (read_in_[size_t(phase)][i]) add(i, *inputs[i], mutated_[i] && phase == Phase::forward ? AccessMode::update : AccessMode::read);
  }
  uint32_t out = uint32_t(graph_.inputs.size());
  for (uint32_t i = 0; i < forward_outputs.size(); ++i) {
    if (output_read_[i]) add(out + i, forward_outputs[i], AccessMode::read);
  }
  uint32_t first = phase == Phase::forward ? 0 : graph_.num_forward_outputs;
  for (uint32_t i = 0; i < results.size(); ++i) add(out + first + i, results[i], AccessMode::write);
  // A forward overwrites what an earlier failure left in the arena; a backward needs what its forward left.
  op->deps[d++].set(run.arena->var, phase == Phase::forward ? AccessMode::write : AccessMode::update);
  op->num_deps = uint16_t(d);
  Engine::current().submit(*op);
}

std::vector<NDArray> ExecutionPlan::forward(std::span<const NDArray* const> inputs, const OpLabel& label, PlanRun*& run,
                                            bool lease) {
  run = &acquire(lease);
  auto outputs = make_outputs(0, graph_.num_forward_outputs, inputs.empty() ? Device() : inputs[0]->device());
  RandomKey key = random_numbers_ ? random::draw(random_numbers_) : RandomKey{};
  push(*run, Phase::forward, inputs, {}, outputs, label, key);
  return outputs;
}

std::vector<NDArray> ExecutionPlan::backward(PlanRun& run, std::span<const NDArray* const> arrays,
                                             std::span<const NDArray> outputs, const OpLabel& label) {
  auto results = make_outputs(graph_.num_forward_outputs, graph_.outputs.size(), outputs[0].device());
  push(run, Phase::backward, arrays, outputs, results, label, {});
  return results;
}

void ExecutionPlan::execute(PlanRun& run, const Half& half, ArrayNode* const* arrays, RandomKey key,
                            RunContext& context) const {
  TensorView* views = run.views.data();
  if (!run.views.empty() && !run.arena->data) {
    char* base = static_cast<char*>(run.arena->ensure());
    for (size_t i = 0; i < run.views.size(); ++i) {
      if (in_arena_[i]) views[i].data = base + arena_offsets_[i];
    }
  }
  for (const External& e : half.externals) {
    ArrayNode* a = arrays[e.place == Place::input ? e.index : graph_.inputs.size() + e.index];
    views[e.view].data = a->data();
  }
  Profiler& profiler = Engine::current().profiler();
  for (const Step& s : half.steps) {
#ifndef NDEBUG
    for (uint32_t i = s.first_view; i < s.first_view + s.num_inputs + s.num_outputs; ++i) {
      assert(!in_arena_[i] || views[i].data == static_cast<char*>(run.arena->data) + arena_offsets_[i]);
    }
#endif
    KernelContext kernel{.inputs = {views + s.first_view, s.num_inputs},
                         .outputs = {views + s.first_view + s.num_inputs, s.num_outputs},
                         .run = context,
                         .random = s.random ? RandomKey{key.seed, key.offset + s.random_offset} : RandomKey{},
                         .training = training_,
                         .exact = exact_,
                         .state = &run.states[s.state]};
    if (profiler.is_on()) [[unlikely]] {
      TraceSpan span(profiler, s.name, "plan");
      s.kernel(s.attrs, kernel);
    } else {
      s.kernel(s.attrs, kernel);
    }
  }
}

}  // namespace kaon
