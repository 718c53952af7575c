// What kernels cost in the layouts in which their images may lie.
#pragma once

#include <memory>
#include <span>

#include "kaon/graph/ir/graph.h"

namespace kaon {

struct KernelInput {
  TensorMeta meta;
  Layout layout = Layout::row_major;
  bool is_image = false;
};

struct KernelCost {
  double seconds = 0;  // infinity: it cannot work so
  uint8_t variant = 0;  // that takes so long (KernelContext::variant)
};

class KernelCosts {
 public:
  virtual ~KernelCosts() = default;
  // Of a node whose outputs lie as its `layouts` say.
  virtual KernelCost of(const Node& node, std::span<const KernelInput> inputs) = 0;
};

// Runs each kernel and each of its variants on this machine, on the engine's threads, and keeps what it found for the
// process, so that one question always has one answer. `graph_bytes`: of all values of the graph: so much other memory is
// read between two runs. Plans that predict find their weights packed.
// Thread safety: any thread; what else the engine runs meanwhile disturbs the times.
std::shared_ptr<KernelCosts> measured_costs(bool training, bool winograd, size_t graph_bytes);

}  // namespace kaon
