#include "kaon/interchange/onnx/format/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "kaon/interchange/onnx/format/reads.h"

namespace kaon::onnx::format {
namespace {

using Names = std::unordered_set<std::string_view>;

// The names of a graph and of those around it.
struct Scope {
  Names names;
  const Scope* outer = nullptr;
  bool has(std::string_view name) const { return names.contains(name) || (outer && outer->has(name)); }
};

class Search {
 public:
  explicit Search(std::vector<std::string>& faults) : faults_(faults) {}

  void look_at(const Graph& graph, const Scope* outer) {
    Scope scope{.names = {}, .outer = outer};
    const std::string where = outer ? fmt::format(" of the graph '{}'", graph.name) : "";
    const auto add_once = [&](Names& names, const std::string& name, const char* what) {
      if (!names.insert(name).second) add(fmt::format("two {}{} are named '{}'", what, where, name));
    };
    Names initializers;  // may be inputs as well, whose defaults they are
    for (const ValueInfo& input : graph.inputs) add_once(scope.names, input.name, "inputs");
    for (const Tensor& t : graph.initializers) add_once(initializers, t.name, "initializers");
    for (const SparseTensor& t : graph.sparse_initializers) add_once(initializers, t.values.name, "initializers");
    scope.names.merge(initializers);
    look_at(graph.nodes, scope);
    for (const ValueInfo& output : graph.outputs) {
      if (!scope.has(output.name)) add(fmt::format("no node makes the output '{}'{}", output.name, where));
    }
  }

  void look_at(const Function& function) {
    Scope scope;
    for (const std::string& input : function.inputs) scope.names.insert(input);
    look_at(function.nodes, scope);
    for (const std::string& output : function.outputs) {
      if (!scope.has(output)) {
        add(fmt::format("no node makes the output '{}' of the function {}", output, function.name));
      }
    }
  }

 private:
  static constexpr size_t most = 20;  // a hostile file may have one at each node
  bool is_full() const { return faults_.size() == most; }
  void add(std::string fault) {
    if (!is_full()) faults_.push_back(std::move(fault));
  }

  void look_at(const std::vector<Node>& nodes, Scope& scope) {
    for (const Node& node : nodes) {
      for (const std::string& input : node.inputs) {
        if (input.empty() || is_full() || scope.has(input)) continue;
        const auto later = std::ranges::find_if(
            nodes, [&](const Node& n) { return std::ranges::find(n.outputs, input) != n.outputs.end(); });
        add(fmt::format(
            "the input '{}' of {} is made by {}", input, describe(node),
            later == nodes.end() ? "no node" : fmt::format("no node before, only by {}", describe(*later))));
      }
      for (const Attribute& attribute : node.attributes) {
        for (const auto& graph : attribute.graphs) look_at(*graph, &scope);
      }
      for (const std::string& output : node.outputs) {
        if (output.empty() || scope.names.insert(output).second) continue;
        add(fmt::format("the value '{}' is made more than once, by {} as well", output, describe(node)));
      }
    }
  }

  std::vector<std::string>& faults_;
};

}  // namespace

std::string describe(const Node& node) {
  const std::string type = (node.domain.empty() ? "" : node.domain + ".") + node.op_type;
  const std::string called = node.name.empty() ? "" : fmt::format("'{}' ", node.name);
  const auto made = std::ranges::find_if(node.outputs, [](const std::string& output) { return !output.empty(); });
  return fmt::format("{}({}) that makes '{}'", called, type, made == node.outputs.end() ? "" : *made);
}

void sort_nodes(std::vector<Node>& nodes) {
  std::unordered_map<std::string_view, size_t> maker;  // by value, the first node that makes it
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].outputs) {
      if (!output.empty()) maker.emplace(output, i);
    }
  }
  std::vector<std::vector<size_t>> readers(nodes.size());
  std::vector<size_t> waits_for(nodes.size());
  bool is_sorted = true;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for_each_read(nodes[i], [&](const std::string& name) {
      const auto found = maker.find(name);
      if (found == maker.end() || found->second == i) return;
      is_sorted &= found->second < i;
      readers[found->second].push_back(i);
      ++waits_for[i];
    });
  }
  if (is_sorted) return;
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;  // the first of the file first
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (waits_for[i] == 0) ready.push(i);
  }
  std::vector<Node> sorted;
  sorted.reserve(nodes.size());
  std::vector<bool> is_placed(nodes.size());
  const auto place = [&](size_t i) {
    is_placed[i] = true;
    sorted.push_back(std::move(nodes[i]));
  };
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    place(i);
    for (size_t reader : readers[i]) {
      if (--waits_for[reader] == 0) ready.push(reader);
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!is_placed[i]) place(i);
  }
  nodes = std::move(sorted);
}

std::vector<std::string> find_faults(const Model& model) {
  std::vector<std::string> faults;
  Search search(faults);
  search.look_at(model.graph, nullptr);
  for (const Function& function : model.functions) search.look_at(function);
  return faults;
}

}  // namespace kaon::onnx::format
