// A recorded computation as a symbol.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "kaon/graph/ir/history.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/symbol/symbol_object.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

using autograd::History;
using autograd::TapeNode;
using graph::SymbolNode;

// A recorded call that is none of an operator: of a CachedOp, or of a function of the program. It is shown, not run.
struct RecordedCall {
  int inputs = 0, outputs = 0;
  static constexpr OpTraits traits{.name = "_CachedOp", .variadic = true};
  static constexpr void fields(auto field) {
    field("inputs", &RecordedCall::inputs);
    field("outputs", &RecordedCall::outputs);
  }
  static const OpDef def;
  int num_inputs() const { return inputs; }
  int num_outputs() const { return outputs; }
  void infer(InferContext&) const { refuse(); }
  void compose(ComposeContext&) const { refuse(); }
  [[noreturn]] static void refuse() {
    throw ValueError(
        "[get_symbol] a recorded call of a whole program is shown, not run: hybridize with an inline_limit of as many "
        "operators as it has");
  }
};
constinit const OpDef RecordedCall::def = make_op_def<RecordedCall>();

// The calls that `last` depends on, in the order of their recording.
std::vector<const TapeNode*> calls_up_to(const TapeNode* last) {
  std::vector<const TapeNode*> calls{last};
  std::set<const TapeNode*> seen{last};
  for (size_t i = 0; i < calls.size(); ++i) {
    for (const auto& history : calls[i]->inputs) {
      const TapeNode* before = history ? history->node.get() : nullptr;
      if (before && seen.insert(before).second) calls.push_back(before);
    }
  }
  std::ranges::sort(calls, {}, &TapeNode::sequence);
  return calls;
}

// Numbers of variables, so that an array has one name in all symbols that are made.
class VariableNumbers {
 public:
  uint64_t of(History* history) {
    const std::lock_guard lock(mutex_);
    if (!history) return ++last_;  // of an array that nobody knows any more
    if (history->number == 0) history->number = ++last_;
    return history->number;
  }

 private:
  std::mutex mutex_;
  uint64_t last_ = 0;
};

// Makes nodes of calls; arrays that no recorded call has made are variables.
class Recording {
 public:
  void add(const TapeNode& call) {
    if (call.released) {
      throw StateError(fmt::format("[get_symbol] a backward has freed the recorded call of {}", call.name));
    }
    graph::GradFunction::Operator op = call.function->recorded_operator();
    const RecordedCall whole{int(call.inputs.size()), int(call.heads.size())};
    if (!op.def) op = {.def = &RecordedCall::def, .attrs = &whole};
    auto node = graph::make_node(op.def, fmt::format("node_{}", call.sequence));
    node->attrs = ops::Attributes(*op.def, op.attrs);
    node->outputs.resize(size_t(op.def->num_outputs(op.attrs)));
    op.def->write(op.attrs, [&](std::string_view name, const std::string& text, bool is_default) {
      if (!is_default) node->text_attrs.emplace(name, text);
    });
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      History* history = call.inputs[i].get();
      if (history && history->node) {
        node->inputs.push_back({nodes_.at(history->node.get()), history->output});
      } else {
        node->inputs.push_back({variable(history, i < op.inputs.size() ? op.inputs[i] : nullptr), 0});
      }
    }
    nodes_.emplace(&call, std::move(node));
  }
  const engine::IntrusivePtr<SymbolNode>& node(const TapeNode* call) const { return nodes_.at(call); }
  // Without a history `array` tells arrays apart; null for one that nobody knows any more.
  engine::IntrusivePtr<SymbolNode> variable(History* history, const void* array) {
    static VariableNumbers numbers;
    if (history) array = history;
    if (const auto at = variables_.find(array); array && at != variables_.end()) return at->second;
    auto made = graph::make_node(nullptr, fmt::format("var{}", numbers.of(history) - 1));
    made->outputs.resize(1);
    if (array) variables_.emplace(array, made);
    return made;
  }

 private:
  std::map<const TapeNode*, engine::IntrusivePtr<SymbolNode>> nodes_;
  std::map<const void*, engine::IntrusivePtr<SymbolNode>> variables_;
};

}  // namespace

int MXAutogradGetSymbol(NDArrayHandle handle, SymbolHandle* out) {
  return guard([&] {
    History* history = autograd::history_of(array_of(handle).array);
    if (!history) {
      throw StateError("[get_symbol] the array is neither the result of a recorded call nor has it a gradient");
    }
    Recording recording;
    SymbolEntry entry;
    if (const TapeNode* const last = history->node.get()) {
      for (const TapeNode* call : calls_up_to(last)) recording.add(*call);
      entry = {recording.node(last), history->output};
    } else {
      entry = {recording.variable(history, nullptr), 0};
    }
    const Symbol symbol(std::move(entry));
    *out = std::make_unique<SymbolObject>(symbol).release();
  });
}
