#include "kaon/interchange/onnx/convert/expansion.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "kaon/engine/error.h"

namespace kaon::onnx::convert {

namespace {

using format::Function;
using format::Node;

class Expansion {
 public:
  Expansion(const format::Model& model, const std::string& file, int64_t most) : file_(file), most_(most) {
    for (const Function& f : model.functions) functions_.emplace(std::tie(f.domain, f.name, f.overload), Entry{&f});
  }

  // Of nodes, with what they call.
  int64_t size(const std::vector<Node>& nodes) {
    int64_t total = 0;
    for (const Node& n : nodes) {
      total += 1 + called(n);
      for (const format::Attribute& a : n.attributes) {
        for (const auto& graph : a.graphs) total += size(graph->nodes);
      }
      if (total > most_) {
        throw ValueError(
            fmt::format("[onnx] {}: with its functions expanded the model has more than {} nodes", file_, most_));
      }
    }
    return total;
  }

 private:
  struct Entry {
    const Function* function;
    int64_t size = -1;  // -1: not known
    bool is_open = false;
  };

  int64_t called(const Node& n) {
    const auto at = functions_.find(std::tie(n.domain, n.op_type, n.overload));
    if (at == functions_.end()) return 0;
    Entry& e = at->second;
    if (e.is_open) throw ValueError(fmt::format("[onnx] {}: the function {} calls itself", file_, e.function->name));
    if (e.size < 0) {
      e.is_open = true;
      e.size = size(e.function->nodes);
      e.is_open = false;
    }
    return e.size;
  }

  const std::string& file_;
  int64_t most_;
  std::map<std::tuple<std::string, std::string, std::string>, Entry> functions_;
};

}  // namespace

void check_expansion(const format::Model& model, const std::string& file, int64_t most) {
  if (!model.functions.empty()) Expansion(model, file, most).size(model.graph.nodes);
}

}  // namespace kaon::onnx::convert
