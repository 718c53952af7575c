// GradientProgram: the backward of a plan as a program of its own, so that gradients have gradients.
#pragma once

#include <forward_list>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/graph/hybrid/cached_graph.h"

namespace kaon::graph {

// Its program computes the forward again, from the same inputs and random numbers; recorded like any other, it has a
// GradientProgram in turn. Shared by a plan's recorded calls; made when it is first asked for.
// Thread safety: any thread.
class GradientProgram {
 public:
  // `trace` gives the program whose gradients with respect to the inputs with wanted[i] these are; `refused` as in
  // GradientForm. `rows`: the plan's own, as with_gradient() has left them.
  GradientProgram(std::function<Graph()> trace, std::vector<bool> wanted, bool training,
                  std::vector<std::string> input_names, HybridizeOptions options, std::string name,
                  IntrusivePtr<PlanArenas> arenas, size_t num_outputs, std::vector<bool> refused,
                  std::vector<bool> rows);
  struct Backward {
    std::vector<bool> heads, rows;
    std::unique_ptr<CachedGraph> graph;
    GradientForm form;  // as PlanOptions::gradient
  };
  // (inputs..., a head gradient for each output with heads[i]) to the gradients wanted, as `form` says. Empty heads:
  // for each output. `rows`: by input, are rows of its gradient taken? Empty: of none.
  const Backward& backward(const std::vector<bool>& heads, const std::vector<bool>& rows);
  // By input of the plan: does its backward give rows of the gradient? Empty: of none.
  const std::vector<bool>& rows_of_plan() const { return rows_; }

 private:
  const Backward* look_up(const std::vector<bool>& heads, const std::vector<bool>& rows);

  std::function<Backward(const std::vector<bool>& heads, const std::vector<bool>& rows)> make_;
  std::vector<bool> rows_;
  SpinLock lock_;
  std::forward_list<Backward> made_;
};

}  // namespace kaon::graph
