#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/inference/fixed_point.h"
#include "kaon/graph/inference/infer.h"
#include "kaon/graph/inference/type_rules.h"

namespace kaon::graph {

namespace {

using Type = std::optional<DType>;

class TypeInference {
 public:
  TypeInference(const std::vector<SymbolEntry>& heads, const DTypes& known, const InferenceOptions& options)
      : graph_(heads), options_(options), types_(graph_.num_values()) {
    size_t given = 0;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const SymbolNode& n = *graph_.nodes()[i];
      if (n.op) continue;
      const auto it = n.constant.defined() ? known.end() : known.find(n.name);
      type(i, 0) = it == known.end() ? stated(n) : it->second;
      given += it != known.end();
    }
    if (given < known.size()) expect_variables(known);
  }

  ByNode<Type> run() {
    graph_.run([&](size_t i) { ask(i); });
    if (options_.closes && close()) graph_.run([&](size_t i) { ask(i); });
    ByNode<Type> result;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const auto first = types_.begin() + std::ptrdiff_t(graph_.first_output(i));
      const SymbolNode* n = graph_.nodes()[i];
      result[n] = {first, first + std::ptrdiff_t(n->outputs.size())};
    }
    return result;
  }

 private:
  Type& type(size_t node, size_t output) { return types_[graph_.first_output(node) + output]; }

  // A variable has float32 when its program said nothing.
  static Type stated(const SymbolNode& n) {
    const DType type = n.outputs[0].dtype;
    if (n.constant.defined() || type != DType::float32 || n.text_attrs.contains("__dtype__")) return type;
    return std::nullopt;
  }

  void expect_variables(const DTypes& known) {
    for (const auto& [name, type] : known) {
      const auto& nodes = graph_.nodes();
      const bool is_there =
          std::any_of(nodes.begin(), nodes.end(), [&](const SymbolNode* n) { return !n->op && n->name == name; });
      if (!is_there) throw ValueError(fmt::format("[infer_type] there is no variable '{}'", name));
    }
  }

  void ask(size_t i) {
    const SymbolNode& n = *graph_.nodes()[i];
    std::vector<Type> in, out;
    for (size_t value : graph_.inputs(i)) in.push_back(types_[value]);
    for (size_t k = 0; k < n.outputs.size(); ++k) out.push_back(type(i, k));
    TypeFacts facts(n, in, out);
    try {
      type_rule (*n.op)(n.attrs.get(), facts);
    } catch (const Error& e) {
      if (options_.is_tolerant) return;
      if (options_.failed) *options_.failed = &n;
      std::rethrow_exception(e.with_context(fmt::format("; in node {}", n.name)));
    }
    bool has_learnt = false;
    const auto store = [&](size_t value, const Type& found) {
      if (types_[value] == found) return;
      types_[value] = found;
      graph_.changed(value, i);
      has_learnt = true;
    };
    for (size_t k = 0; k < in.size(); ++k) store(graph_.inputs(i)[k], in[k]);
    for (size_t k = 0; k < out.size(); ++k) store(graph_.first_output(i) + k, out[k]);
    if (has_learnt) graph_.ask_again(i);
  }

  // A variable that has been given a shape and no dtype is of float32.
  bool close() {
    bool any = false;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const SymbolNode& n = *graph_.nodes()[i];
      if (n.op || type(i, 0) || n.outputs[0].shape.ndim() < 0) continue;
      type(i, 0) = n.outputs[0].dtype;
      graph_.changed(graph_.first_output(i), i);
      any = true;
    }
    return any;
  }

  FixedPoint graph_;
  const InferenceOptions& options_;
  std::vector<Type> types_;
};

}  // namespace

ByNode<Type> infer_types(const std::vector<SymbolEntry>& heads, const DTypes& known, const InferenceOptions& options) {
  return TypeInference(heads, known, options).run();
}

}  // namespace kaon::graph
