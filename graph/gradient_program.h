// GradientProgram: the backward of a plan as a program of its own, so that gradients have gradients.
#pragma once

#include <mutex>

#include "kaon/graph/cached_graph.h"

namespace kaon {

// Its program computes the forward again, from the same inputs and random numbers; recorded like any other, it has a
// GradientProgram in turn. Shared by a plan's recorded calls; made when it is first asked for.
// Thread safety: any thread.
class GradientProgram {
 public:
  // `trace` gives the program whose gradients with respect to the inputs with wanted[i] these are; `refused` as in
  // GradientForm.
  GradientProgram(std::function<Graph()> trace, std::vector<bool> wanted, bool training,
                  std::vector<std::string> input_names, HybridizeOptions options, std::string name,
                  IntrusivePtr<PlanArenas> arenas, size_t num_heads, std::vector<bool> refused);
  // (inputs..., a head gradient for each output...) to the gradients wanted.
  CachedGraph& graph();

 private:
  std::function<std::unique_ptr<CachedGraph>()> make_;
  std::once_flag once_;
  std::unique_ptr<CachedGraph> graph_;
};

}  // namespace kaon
