#include "kaon/graph/hybrid/trace_check.h"

#include <fmt/format.h>

#include <cstring>

#include "kaon/graph/ir/symbol_node.h"
#include "kaon/graph/plan/verify.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::graph {
namespace {

bool same_constant(const NDArray& a, const NDArray& b) {
  if (a.ptr() == b.ptr()) return true;
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  a.wait_to_read();
  b.wait_to_read();
  return a.size() == 0 || std::memcmp(a.node().data(), b.node().data(), a.node().bytes()) == 0;
}

// Two programs side by side, operator by operator as they were written.
class Comparison {
 public:
  Comparison(const Symbol& traced, const Symbol& now) : a_(traced.entries()), b_(now.entries()) {}

  // A text about the first difference; empty: there is none.
  std::string run() {
    for (size_t i = 0; i < std::min(a_.nodes.size(), b_.nodes.size()); ++i) {
      const std::string difference = of_nodes(*a_.nodes[i], *b_.nodes[i]);
      if (!difference.empty()) return difference;
    }
    if (a_.nodes.size() > b_.nodes.size()) return fmt::format("{} is gone", describe(*a_.nodes[b_.nodes.size()]));
    if (a_.nodes.size() < b_.nodes.size()) return fmt::format("{} is new", describe(*b_.nodes[a_.nodes.size()]));
    if (a_.outputs.size() != b_.outputs.size())
      return fmt::format("there were {} outputs, now {}", a_.outputs.size(), b_.outputs.size());
    for (size_t i = 0; i < a_.outputs.size(); ++i) {
      if (!same_value(a_.outputs[i], b_.outputs[i]))
        return fmt::format("output {} was {}, is {}", i, describe(*a_.outputs[i].node), describe(*b_.outputs[i].node));
    }
    return {};
  }

 private:
  struct Program {
    explicit Program(const std::vector<SymbolEntry>& entries) : outputs(entries) {
      for (const SymbolNode* n : creation_order(entries)) {
        if (!n->op) continue;
        number[n] = nodes.size();
        nodes.push_back(n);
      }
    }
    const std::vector<SymbolEntry>& outputs;
    std::vector<const SymbolNode*> nodes;  // operators
    std::unordered_map<const SymbolNode*, size_t> number;
  };

  static std::string describe(const SymbolNode& n) {
    return fmt::format("{} ({})", n.name, n.op ? n.op->name() : n.constant.defined() ? "constant" : "variable");
  }

  bool same_value(const SymbolEntry& a, const SymbolEntry& b) const {
    const SymbolNode &x = *a.node, &y = *b.node;
    if (a.output != b.output || bool(x.op) != bool(y.op)) return false;
    if (x.op) return a_.number.at(&x) == b_.number.at(&y);
    if (x.constant.defined() || y.constant.defined()) {
      return x.constant.defined() && y.constant.defined() && same_constant(x.constant, y.constant);
    }
    return x.name == y.name;
  }

  // "scalar was 2, is 3"
  static std::string of_attributes(const SymbolNode& a, const SymbolNode& b) {
    std::vector<std::pair<std::string, std::string>> were;
    a.op->write(a.attrs.get(),
                [&](std::string_view name, const std::string& value, bool) { were.emplace_back(name, value); });
    std::string text;
    size_t i = 0;
    b.op->write(b.attrs.get(), [&](std::string_view, const std::string& value, bool) {
      const auto& [name, was] = were[i++];
      if (was != value) text += fmt::format("{}{} was {}, is {}", text.empty() ? "" : ", ", name, was, value);
    });
    return text.empty() ? std::string("attributes differ") : text;
  }

  std::string of_nodes(const SymbolNode& a, const SymbolNode& b) const {
    if (a.op != b.op) return fmt::format("{} is now {}", describe(a), describe(b));
    if (!a.op->equal(a.attrs.get(), b.attrs.get())) return fmt::format("{}: {}", describe(a), of_attributes(a, b));
    if (a.inputs.size() != b.inputs.size())
      return fmt::format("{} had {} inputs, has {}", describe(a), a.inputs.size(), b.inputs.size());
    for (size_t i = 0; i < a.inputs.size(); ++i) {
      if (!same_value(a.inputs[i], b.inputs[i])) {
        return fmt::format("input {} of {} was {}, is {}{}", i, describe(a), describe(*a.inputs[i].node),
                           describe(*b.inputs[i].node),
                           a.inputs[i].node->constant.defined() ? " with other values" : "");
      }
    }
    return {};
  }

  const Program a_, b_;
};

}  // namespace

void check_trace(const Symbol& traced, const Symbol& now, const char* name) {
  const std::string difference = Comparison(traced, now).run();
  if (difference.empty()) return;
  throw VerifyError(
      fmt::format("[verify] {} was traced and computes something else now: {}. A value that hybrid_forward "
                  "takes from C++ is that of the trace: make it a Parameter or an input, or call "
                  "hybridize() when it has changed",
                  name, difference));
}

}  // namespace kaon::graph
