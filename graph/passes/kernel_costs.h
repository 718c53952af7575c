// The cost of kernels for each layout of their images.
#pragma once

#include <memory>
#include <span>

#include "kaon/graph/ir/graph.h"

namespace kaon::graph {

struct KernelInput {
  TensorMeta meta;
  Layout layout = Layout::row_major;
  bool is_image = false;
};

struct KernelCost {
  double seconds = 0;   // infinity: it cannot work so
  uint8_t variant = 0;  // the variant with this cost (KernelContext::variant)
};

class KernelCosts {
 public:
  virtual ~KernelCosts() = default;
  // The cost of a node whose outputs have its `layouts`.
  virtual KernelCost of(const Node& node, std::span<const KernelInput> inputs) = 0;
};

// Runs each kernel and each of its variants on this machine, on the engine's threads, and keeps the results for the
// process, so that one query always has one answer. `graph_bytes`: size of all values of the graph, read between two
// runs to evict caches. Predicting plans are timed with packed weights. Thread safety: any thread; other work of the
// engine disturbs the times.
std::shared_ptr<KernelCosts> measured_costs(bool training, bool winograd, size_t graph_bytes);

}  // namespace kaon::graph
