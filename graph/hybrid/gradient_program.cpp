#include "kaon/graph/hybrid/gradient_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "kaon/graph/ir/gradient.h"

namespace kaon {

GradientProgram::GradientProgram(std::function<Graph()> trace, std::vector<bool> wanted, bool training,
                                 std::vector<std::string> input_names, HybridizeOptions options, std::string name,
                                 IntrusivePtr<PlanArenas> arenas, size_t num_outputs, std::vector<bool> refused) {
  options.policy = PlanPolicy::retrace;  // one plan's shapes are all that it sees
  options.verify = 0;
  const size_t results = size_t(std::count(wanted.begin(), wanted.end(), true));
  name += "_backward";
  make_ = [=](const std::vector<bool>& heads) {
    std::vector<std::string> names = input_names;
    for (size_t i = 0; i < num_outputs; ++i) {
      if (heads.empty() || heads[i]) names.push_back(fmt::format("head_grad{}", i));
    }
    auto gradients = [=](std::span<const TensorMeta>, bool) {  // shapes and mode are the plan's
      return gradient_graph(trace(), wanted, {.heads = heads, .refused = refused}, training);
    };
    return std::make_unique<CachedGraph>(gradients, results, std::move(names), options, name, arenas);
  };
}

CachedGraph* GradientProgram::look_up(const std::vector<bool>& heads) {
  for (const Made& m : made_) {
    if (m.heads == heads) return m.graph.get();
  }
  return nullptr;
}

CachedGraph& GradientProgram::graph(const std::vector<bool>& heads) {
  {
    std::lock_guard lock(lock_);
    if (CachedGraph* graph = look_up(heads)) return *graph;
  }
  std::forward_list<Made> made;
  made.push_front({heads, make_(heads)});
  CachedGraph& graph = *made.front().graph;
  std::lock_guard lock(lock_);
  if (CachedGraph* other = look_up(heads)) return *other;  // another thread was faster
  made_.splice_after(made_.before_begin(), made);
  return graph;
}

}  // namespace kaon
