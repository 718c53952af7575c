#include "kaon/graph/hybrid/plan_gradient.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/autograd.h"
#include "kaon/graph/hybrid/gradient_program.h"
#include "kaon/ops/array/small_array.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/nn/norm/kernels/moving_statistics.h"

namespace kaon::graph {
namespace {

// Gradients of a recorded call: the backward half of its plan, or, where they are recorded themselves, a call of its
// gradients' program. Holds the run, whose arena keeps what the forward saved, and the arrays.
class PlanGradFunction final : public GradFunction {
 public:
  PlanGradFunction(IntrusivePtr<ExecutionPlan> plan, PlanRun& run, std::span<const NDArray* const> inputs,
                   std::span<const NDArray> outputs, std::vector<bool> wanted,
                   std::shared_ptr<ExpectedHeads> expected_heads, const OpLabel& label)
      : plan_(std::move(plan)),
        run_(&run),
        label_(label),
        wanted_(std::move(wanted)),
        expected_heads_(std::move(expected_heads)) {
    inputs_.reserve(inputs.size());
    outputs_.reserve(outputs.size());
    for (const NDArray* i : inputs) inputs_.emplace_back(*i);
    for (const NDArray& o : outputs) outputs_.emplace_back(o.detach());  // the array itself would keep this alive
  }
  ~PlanGradFunction() override { release(); }

  bool writes_in_place() const override { return true; }

  NDArray own_head(size_t i) const override {
    const std::vector<bool>& own = plan_->options().own;
    return run_ && !own.empty() && own[i] ? autograd::filled_like(outputs_[i].array, 0) : NDArray();
  }

  void backward(const GradCall& call) override {
    const PlanOptions& options = plan_->options();
    for (size_t i = 0; i < options.refusals.size(); ++i) {
      if (call.heads[i].defined() && !options.refusals[i].empty()) throw StateError(options.refusals[i]);
    }
    const bool is_recorded = thread_context().recording;
    std::vector<bool> heads = arrived(call.heads);
    const bool is_planned = heads == options.heads;
    report_changed_arrays(is_recorded || !is_planned);
    std::vector<const NDArray*> arrays;
    for (const autograd::SavedArray& a : inputs_) arrays.push_back(&a.array);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!heads.empty() && !heads[i]) continue;
      arrays.push_back(call.heads[i].defined() ? &call.heads[i] : &outputs_[i].array);  // which is not read
    }
    const bool by_program = is_recorded || !is_planned;
    // Rows only where they are stored as such; a plan was made to give them by its forward.
    const std::vector<bool>& planned = options.gradients->rows_of_plan();
    const std::vector<bool> rows = call.rows ? planned : std::vector<bool>();
    const GradientProgram::Backward* program = by_program ? &options.gradients->backward(heads, rows) : nullptr;
    const std::vector<Arrives>& arrives = program ? program->form.arrives : options.arrives;
    const std::vector<bool>& as_rows = program ? program->form.rows : planned;
    const auto has_rows = [&](size_t i) { return !as_rows.empty() && as_rows[i]; };
    // What the plan computes was settled by the forward.
    std::vector<NDArray> results;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (!wanted_[i]) continue;
      if (has_rows(i)) {
        results.resize(results.size() + 2 * size_t(arrives[i] != Arrives::never));
      } else {
        results.push_back(is_free(call.gradients[i], arrays) ? call.gradients[i] : NDArray());
      }
    }
    size_t report = results.size();
    results.resize(report + size_t(std::count(arrives.begin(), arrives.end(), Arrives::sometimes)));
    if (is_recorded) {
      program->graph->call(arrays, results, label_.site, {}, &run_->key);
    } else if (!is_planned) {
      program->graph->call_into(arrays, results, label_.site, &run_->key);
      expected_heads_->set(std::move(heads));
    } else {
      SmallArray<NDArray> outputs(outputs_.size(), [&](size_t i) { return outputs_[i].array; });
      plan_->backward(*run_, arrays, outputs.span(), results, label_, call.retain);
    }
    size_t next = 0;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      call.gradients[i] = NDArray();
      if (!wanted_[i]) continue;
      if (has_rows(i)) {
        if (arrives[i] == Arrives::never) continue;
        give_rows(call, i, results[next], results[next + 1]);
        next += 2;
        continue;
      }
      call.gradients[i] = std::move(results[next++]);
      const NDArray presence = arrives[i] == Arrives::sometimes ? results[report++] : NDArray();
      if (!passes_on(i)) continue;
      // To an earlier call zeros are not the same as nothing: its rule may multiply them by infinity, or ignore them.
      const bool is_there = presence.defined() ? presence.asvector<uint8_t>()[0] != 0 : arrives[i] == Arrives::always;
      if (!is_there) call.gradients[i] = NDArray();
    }
  }

  void release() override {
    if (!run_) return;
    plan_->end_lease(*run_);
    run_ = nullptr;
    inputs_.clear();
    outputs_.clear();
  }

 private:
  // By output: does a gradient arrive there, or can none? Empty: at each.
  std::vector<bool> arrived(std::span<const NDArray> heads) const {
    if (heads.size() == 1) return {};
    const PlanOptions& options = plan_->options();
    std::vector<bool> result(heads.size());
    bool all = true;
    for (size_t i = 0; i < heads.size(); ++i) {
      const bool can_arrive = autograd::has_gradient(outputs_[i].array.dtype()) &&
                              (options.recorded.empty() || options.recorded[i]) &&
                              (options.refusals.empty() || options.refusals[i].empty());
      result[i] = heads[i].defined() || !can_arrive;
      all = all && result[i];
    }
    if (all) result.clear();
    return result;
  }

  // A gradient that is asked for by name is a whole one.
  void give_rows(const GradCall& call, size_t i, const NDArray& values, const NDArray& indices) const {
    if (call.rows) return call.rows->push_back({i, values, indices}), void();
    const Shape& shape = inputs_[i].array.shape();
    call.gradients[i] = nd._backward_take(values, indices, {.shape = shape, .axis = 0, .mode = IndexMode::clip});
  }

  bool only_updates(size_t i) const {
    const std::vector<bool>& copied = plan_->options().copied;
    return plan_->updates_input(i) || (!copied.empty() && copied[i]);
  }

  // Moving statistics that the backward half moves, as they are by then.
  bool is_moved_alone(size_t i) const {
    const Graph& graph = plan_->graph();
    return std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
      for (size_t k = 0; n.op && n.phase == Phase::backward && k < n.inputs.size(); ++k) {
        if (n.inputs[k].node == graph.inputs[i] && n.op != &op::MoveStatistics::def) return false;
      }
      return true;
    });
  }

  // The backward half reads some of the arrays again. The gradients' program begins with the inputs, and takes what it
  // updates as it is.
  void report_changed_arrays(bool by_program) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool is_read = by_program ? !only_updates(i) : plan_->backward_reads_input(i) && !is_moved_alone(i);
      if (is_read && inputs_[i].is_changed())
        report("input " + plan_->graph().nodes[plan_->graph().inputs[i]].name, inputs_[i]);
    }
    for (size_t i = 0; !by_program && i < outputs_.size(); ++i) {
      if (plan_->backward_reads_output(i) && outputs_[i].is_changed()) report(fmt::format("output {}", i), outputs_[i]);
    }
  }
  void report(const std::string& what, const autograd::SavedArray& saved) const {
    autograd::report_changed(label_.name, what, saved, label_.site);
  }

  // May the plan write here while it reads `arrays`?
  static bool is_free(const NDArray& target, std::span<const NDArray* const> arrays) {
    if (!target.defined()) return false;
    return std::none_of(arrays.begin(), arrays.end(),
                        [&](const NDArray* a) { return a->defined() && a->ptr()->buffer == target.ptr()->buffer; });
  }

  IntrusivePtr<ExecutionPlan> plan_;
  PlanRun* run_;
  OpLabel label_;
  std::vector<bool> wanted_;  // by input, when the plan was made
  std::shared_ptr<ExpectedHeads> expected_heads_;
  std::vector<autograd::SavedArray> inputs_, outputs_;
};

}  // namespace

std::unique_ptr<GradFunction> plan_gradient(IntrusivePtr<ExecutionPlan> plan, PlanRun& run,
                                            std::span<const NDArray* const> inputs, std::span<const NDArray> outputs,
                                            std::vector<bool> wanted, std::shared_ptr<ExpectedHeads> expected_heads,
                                            const OpLabel& label) {
  return std::make_unique<PlanGradFunction>(std::move(plan), run, inputs, outputs, std::move(wanted),
                                            std::move(expected_heads), label);
}

}  // namespace kaon::graph
