#include "kaon/graph/plan_ops/fused_kernel.h"

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/error.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace graph;

namespace {

consteval OpDef make_def() {
  OpDef def = make_op_def<op::FusedKernel>();
  def.equal = [](const void* a, const void* b) {
    return *static_cast<const op::FusedKernel*>(a) == *static_cast<const op::FusedKernel*>(b);
  };
  return def;
}

struct Sources : WithMutex {
  std::unordered_map<std::string, std::unique_ptr<const KernelSource>> by_text;
};

}  // namespace

constinit const OpDef op::FusedKernel::def = make_def();

}  // namespace kaon

namespace kaon::graph {

const KernelSource* KernelSource::intern(KernelSource source) {
  Sources& known = ProcessWide<Sources>::get();
  std::lock_guard lock(known.mutex);
  std::unique_ptr<const KernelSource>& found = known.by_text[source.text];
  if (!found) found = std::make_unique<const KernelSource>(std::move(source));
  return found.get();
}

}  // namespace kaon::graph

namespace kaon {

void op::FusedKernel::infer(InferContext& c) const {
  for (int i = 0; i < num_outputs(); ++i) c.set_output(i, shape, source->outputs[size_t(i)]);
}

void run_cpu(const op::FusedKernel&, KernelContext&) { throw StateError("[_fused_kernel] is for GPUs"); }

}  // namespace kaon
