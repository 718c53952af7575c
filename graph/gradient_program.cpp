#include "kaon/graph/gradient_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/gradient.h"

namespace kaon {

GradientProgram::GradientProgram(std::function<Graph()> trace, std::vector<bool> wanted, bool training,
                                 std::vector<std::string> input_names, HybridizeOptions options, std::string name,
                                 IntrusivePtr<PlanArenas> arenas, size_t num_heads, std::vector<bool> refused) {
  options.policy = PlanPolicy::retrace;  // one plan's shapes are all that it sees
  options.verify = 0;
  for (size_t i = 0; i < num_heads; ++i) input_names.push_back(fmt::format("head_grad{}", i));
  const size_t outputs = size_t(std::count(wanted.begin(), wanted.end(), true));
  // Shapes and mode are the plan's.
  auto gradients = [trace = std::move(trace), wanted = std::move(wanted), refused = std::move(refused), training](
                       std::span<const TensorMeta>, bool) {
    return gradient_graph(trace(), wanted, refused, training);
  };
  make_ = [=, name = name + "_backward"] {
    return std::make_unique<CachedGraph>(gradients, outputs, input_names, options, name, arenas);
  };
}

CachedGraph& GradientProgram::graph() {
  std::call_once(once_, [this] {
    graph_ = make_();
    make_ = nullptr;
  });
  return *graph_;
}

}  // namespace kaon
