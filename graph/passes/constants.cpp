// Constant folding.
#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "kaon/graph/ir/outside_budget.h"
#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::graph::passes {
namespace {

constexpr size_t most_bytes = 1 << 20;  // of the results of one operator

// Runs a kernel on this thread in the same pieces as the engine, so the bits are those of an imperative call.
class RunHere final : public RunContext {
 public:
  void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) override {
    for (int64_t begin = 0; begin < n; begin += grain) body(begin, std::min(begin + grain, n));
  }
  void* workspace(size_t bytes) override {
    blocks_.emplace_back(static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 1), line)));
    return blocks_.back().get();
  }

 private:
  static constexpr std::align_val_t line{64};
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, line); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> blocks_;
};

TensorView view_of(const NDArray& a) { return {a.node().data(), a.shape(), a.dtype()}; }

// The node's outputs for these constants. Throws what the kernel throws.
std::vector<NDArray> evaluate(const Node& n, const std::vector<NDArray>& inputs, bool training) {
  std::vector<TensorView> in, out;
  for (const NDArray& a : inputs) {
    a.wait_to_read();
    in.push_back(view_of(a));
  }
  std::vector<NDArray> results;
  {
    const OutsideBudget outside;
    for (const TensorMeta& m : n.outputs) results.push_back(NDArray::empty(m.shape, m.dtype));
  }
  for (const NDArray& a : results) out.push_back(view_of(a));
  RunHere run;
  KernelContext context{.inputs = in, .outputs = out, .run = run, .training = training};
  n.op->cpu(n.attrs.get(), context);
  return results;
}

NDArray reshaped(const NDArray& a, const Shape& shape) {
  const ArrayNode& node = a.node();
  return NDArray(IntrusivePtr<ArrayNode>(new ArrayNode(node.buffer, shape, node.dtype, node.offset)));
}

bool is_small(const Node& n) {
  size_t bytes = 0;
  for (const TensorMeta& m : n.outputs) bytes += size_t(m.shape.size()) * size_of(m.dtype);
  return bytes <= most_bytes;
}

// Whether the node's outputs depend on its inputs only.
bool is_function(const Node& n) {
  const OpTraits& traits = n.op->traits_of(n.attrs.get());
  return !traits.random && traits.mutates == 0 &&
         n.op->device(n.attrs.get()).value_or(Device()).type == DeviceType::cpu;
}

}  // namespace

Graph fold_constants(Graph g, bool training) {
  const std::vector<bool> updated = updated_nodes(g, training);
  Rewriter out(g);
  auto fold = [&](uint32_t i) {
    const Node& n = g.nodes[i];
    if (!n.op || !is_function(n) || updated[i] || reads_updated(g, n, updated)) return false;
    std::vector<NDArray> inputs;
    for (ValueId v : n.inputs) {
      inputs.push_back(out.node(out.now(v)).constant);
      if (!inputs.back().defined() || inputs.back().device().type != DeviceType::cpu) return false;
    }
    std::vector<NDArray> results;
    try {
      if (n.op->traits.view) {
        results = {reshaped(inputs[0], n.outputs[0].shape)};
      } else if (is_small(n)) {
        results = evaluate(n, inputs, training);
      } else {
        return false;
      }
    } catch (const Error&) {
      return false;
    }
    std::vector<ValueId> values;
    for (size_t k = 0; k < results.size(); ++k) {
      Node constant;
      constant.name = n.name;
      constant.constant = std::move(results[k]);
      constant.outputs = {n.outputs[k]};
      values.push_back(out.add(std::move(constant)));
    }
    out.replace(i, std::move(values));
    return true;
  };
  for (uint32_t i = 0; i < g.nodes.size(); ++i) {
    if (!fold(i)) out.keep(i);
  }
  return out.finish();
}

}  // namespace kaon::graph::passes
