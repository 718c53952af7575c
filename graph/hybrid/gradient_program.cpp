#include "kaon/graph/hybrid/gradient_program.h"

#include <fmt/format.h>

#include <mutex>

#include "kaon/graph/ir/gradient.h"
#include "kaon/graph/ir/rewrite.h"
#include "kaon/ops/nn/norm/norm.h"

namespace kaon::graph {
namespace {

// The program computes the forward again, by then from inputs that the first run has updated: refused where a result
// depends on one. While BatchNorm updates its statistics, its results are those of the batch.
void refuse_updated_inputs(const Graph& forward, bool training, const std::string& name) {
  const std::vector<bool> updated = passes::updated_nodes(forward, training);
  for (const Node& n : forward.nodes) {
    for (size_t i = 0; i < n.inputs.size() && !n.outputs.empty(); ++i) {
      const bool is_statistic = n.op == &op::BatchNorm::def && is_mutated(n.op->traits, int(i), int(n.inputs.size()));
      if (is_statistic || !updated[passes::root(forward, n.inputs[i]).node]) continue;
      throw StateError(
          fmt::format("[{}] this gradient takes the forward again, and {} reads what the block updates: not "
                      "implemented for hybridized blocks; call the block without hybridize()",
                      name, n.op->name()));
    }
  }
}

}  // namespace

GradientProgram::GradientProgram(std::function<Graph()> trace, std::vector<bool> wanted, bool training,
                                 std::vector<std::string> input_names, HybridizeOptions options, std::string name,
                                 IntrusivePtr<PlanArenas> arenas, size_t num_outputs, std::vector<bool> refused,
                                 std::vector<bool> rows)
    : rows_(std::move(rows)) {
  options.policy = PlanPolicy::retrace;  // one plan's shapes are all that it sees
  options.verify = 0;
  name += "_backward";
  make_ = [=](const std::vector<bool>& heads, const std::vector<bool>& rows) {
    std::vector<std::string> names = input_names;
    for (size_t i = 0; i < num_outputs; ++i) {
      if (heads.empty() || heads[i]) names.push_back(fmt::format("head_grad{}", i));
    }
    refuse_updated_inputs(trace(), training, name);
    const GradientForm form{.heads = arrivals(heads), .refused = refused, .reports = true, .rows = rows};
    auto gradients = [=](std::span<const TensorMeta>, bool) {  // shapes and mode are the plan's
      return gradient_graph(trace(), wanted, form, training);
    };
    Backward made{.heads = heads, .rows = rows, .graph = nullptr, .form = gradient_form(trace(), wanted, form)};
    made.graph = std::make_unique<CachedGraph>(gradients, num_gradient_outputs(wanted, made.form), std::move(names),
                                               options, name, arenas);
    return made;
  };
}

const GradientProgram::Backward* GradientProgram::look_up(const std::vector<bool>& heads,
                                                          const std::vector<bool>& rows) {
  for (const Backward& m : made_) {
    if (m.heads == heads && m.rows == rows) return &m;
  }
  return nullptr;
}

const GradientProgram::Backward& GradientProgram::backward(const std::vector<bool>& heads,
                                                           const std::vector<bool>& rows) {
  {
    std::lock_guard lock(lock_);
    if (const Backward* found = look_up(heads, rows)) return *found;
  }
  std::forward_list<Backward> made;
  made.push_front(make_(heads, rows));
  std::lock_guard lock(lock_);
  if (const Backward* other = look_up(heads, rows)) return *other;  // another thread was faster
  made_.splice_after(made_.before_begin(), made);
  return made_.front();
}

}  // namespace kaon::graph
