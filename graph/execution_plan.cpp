#include "kaon/graph/execution_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <mutex>

#include "kaon/engine/trace.h"
#include "kaon/ops/kernel_call.h"
#include "kaon/ops/random_state.h"

namespace kaon {

ExecutionPlan::ExecutionPlan(Graph graph, const PlanOptions& options)
    : graph_(std::move(graph)), memory_(plan_memory(graph_)), options_(options) {
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
              .node = &n,
              .first_view = uint32_t(views_.size()),
              .num_inputs = uint16_t(n.inputs.size()),
              .num_outputs = uint16_t(n.outputs.size()),
              .state = num_states_++,
              .random_offset = random_numbers_,
              .random = draws_numbers(*n.op, n.attrs.get(), options.training)};
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
        if (is_mutated(n.op->traits, int(i), int(n.inputs.size()))) mutates_ = mutated_[s.index] = true;
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

PlanRun& ExecutionPlan::acquire() {
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
  found->leased = true;
  return *found;
}

void ExecutionPlan::end_lease(PlanRun& run) {
  std::lock_guard lock(lock_);
  run.leased = false;
}

void ExecutionPlan::make_arrays(size_t first, Device device, std::span<NDArray> arrays) const {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const TensorMeta& m = graph_.meta(graph_.outputs[first + i]);
    if (!arrays[i].defined()) arrays[i] = NDArray::empty(m.shape, m.dtype, device);
  }
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
  bool is_last;  // nothing reads the arena after this

  ArrayNode** arrays() const { return reinterpret_cast<ArrayNode**>(const_cast<PlanCall*>(this) + 1); }
  static size_t bytes(uint32_t n) { return sizeof(PlanCall) + n * sizeof(ArrayNode*); }
  static PlanCall& of(OpNode& op) { return **reinterpret_cast<PlanCall**>(op.payload); }
  static void execute(OpNode& op, RunContext& context) {
    PlanCall& c = of(op);
    c.plan->execute(c, context);
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
                         RandomKey key, bool is_last) {
  uint32_t n = uint32_t(graph_.inputs.size() + graph_.outputs.size());
  auto* call = new (pool_allocate(PlanCall::bytes(n)))
      PlanCall{IntrusivePtr<ExecutionPlan>(this), &run, run.arena, key, n, phase, is_last};
  std::fill_n(call->arrays(), n, nullptr);
  auto* op = new OpNode;
  *reinterpret_cast<PlanCall**>(op->payload) = call;
  op->type = &plan_call_type;
  op->label = label;
  op->transactional = mutates_ && phase == Phase::forward;
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

PlanRun& ExecutionPlan::forward(std::span<const NDArray* const> inputs, std::span<NDArray> outputs, const OpLabel& label,
                                bool lease) {
  make_arrays(0, inputs.empty() ? Device() : inputs[0]->device(), outputs);
  RandomKey key = random_numbers_ ? random::draw(random_numbers_) : RandomKey{};
  PlanRun& run = acquire();
  push(run, Phase::forward, inputs, {}, outputs, label, key, !lease);
  if (!lease) end_lease(run);
  return run;
}

void ExecutionPlan::backward(PlanRun& run, std::span<const NDArray* const> arrays, std::span<const NDArray> outputs,
                             std::span<NDArray> results, const OpLabel& label, bool retain) {
  make_arrays(graph_.num_forward_outputs, arrays.back()->device(), results);
  if (!retain) return push(run, Phase::backward, arrays, outputs, results, label, {}, true);
  // The backward reuses the memory of what the forward saved, so it works on a copy.
  PlanRun& copy = copy_of(run, label);
  push(copy, Phase::backward, arrays, outputs, results, label, {}, true);
  end_lease(copy);
}

PlanRun& ExecutionPlan::copy_of(PlanRun& run, const OpLabel& label) {
  PlanRun& copy = acquire();
  auto body = [from = run.arena, to = copy.arena](RunContext&) { std::memcpy(to->ensure(), from->ensure(), from->bytes); };
  Engine::current().push({read(run.arena->var), write(copy.arena->var)}, std::move(body), {.label = label});
  return copy;
}

void ExecutionPlan::execute(const PlanCall& call, RunContext& context) const {
  PlanRun& run = *call.run;
  TensorView* views = run.views.data();
  auto* base = static_cast<char*>(run.arena->ensure());
  if (run.base != base) {
    run.base = base;
    for (size_t i = 0; i < run.views.size(); ++i) {
      if (in_arena_[i]) views[i].data = base + arena_offsets_[i];
    }
  }
  const Half& half = halves_[size_t(call.phase)];
  for (const External& e : half.externals) {
    ArrayNode* a = call.arrays()[e.place == Place::input ? e.index : graph_.inputs.size() + e.index];
    views[e.view].data = a->data();
  }
  Profiler& profiler = Engine::current().profiler();
  const Step* step = nullptr;
  try {
    for (const Step& s : half.steps) {
      step = &s;
#ifndef NDEBUG
      for (uint32_t i = s.first_view; i < s.first_view + s.num_inputs + s.num_outputs; ++i) {
        assert(!in_arena_[i] || views[i].data == base + arena_offsets_[i]);
      }
#endif
      KernelContext kernel{.inputs = {views + s.first_view, s.num_inputs},
                           .outputs = {views + s.first_view + s.num_inputs, s.num_outputs},
                           .run = context,
                           .random = s.random ? RandomKey{call.key.seed, call.key.offset + s.random_offset} : RandomKey{},
                           .training = options_.training,
                           .exact = options_.exact,
                           .state = &run.states[s.state]};
      if (profiler.is_on()) [[unlikely]] {
        TraceSpan span(profiler, s.node->op->name().data(), "plan");
        s.kernel(s.attrs, kernel);
      } else {
        s.kernel(s.attrs, kernel);
      }
    }
  } catch (const Error& e) {
    std::rethrow_exception(e.with_context(fmt::format(" in node {} ({})", step->node->name, step->node->op->name())));
  }
  if (call.is_last && !options_.keep_arenas) run.arena->give_back();
}

}  // namespace kaon
