#include "kaon/graph/plan_report.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "kaon/graph/plan/execution_plan.h"
#include "kaon/graph/plan_ops/reorder.h"

namespace kaon {

using namespace graph;

PlanReport::PlanReport(IntrusivePtr<ExecutionPlan> plan) : plan_(std::move(plan)) {}
PlanReport::~PlanReport() = default;

std::string PlanReport::dump() const {
  const PlanOptions& options = plan_->options();
  return (options.history ? options.history() : plan_->graph().str()) + implementations() + memory();
}

std::string PlanReport::implementations() const {
  std::string text = "--- implementations\n";
  size_t operators = 0, reorders = 0, inside = 0;
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    const auto choices = plan_->choices().get(phase);
    if (choices) inside += size_t(choices->reorders);
    size_t i = 0;
    for (const PlanSteps::Step& step : plan_->steps().phase(phase).steps) {
      const Node& n = *step.node;
      if (n.op == &op::Reorder::def) ++reorders;
      const std::string_view chosen = !choices ? "not run yet"
                                      : choices->implementations[i].empty()
                                          ? "own"
                                          : std::string_view(choices->implementations[i]);
      text += fmt::format("{} ({}): {}\n", n.name, n.op->name(), chosen);
      ++i;
    }
    operators += i;
  }
  text += fmt::format("{} operators, {} reorders of images, {} more inside kernels\n", operators, reorders, inside);
  if (plan_->options().device.type == DeviceType::cpu) return text;
  return text + fmt::format("{} runs launched as one graph each\n", graph_launches());
}

std::string PlanReport::memory() const { return plan_->memory().report(plan_->graph()); }
std::string PlanReport::svg() const { return plan_->memory().svg(plan_->graph()); }
size_t PlanReport::arena_bytes() const { return plan_->memory().arena_bytes; }
size_t PlanReport::num_arenas() const { return plan_->num_arenas(); }
uint64_t PlanReport::graph_launches() const { return plan_->graph_launches(); }

}  // namespace kaon
