#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/inference/fixed_point.h"
#include "kaon/graph/inference/infer.h"
#include "kaon/graph/inference/shape_rules.h"

namespace kaon::graph {

namespace {

class ShapeInference {
 public:
  ShapeInference(const std::vector<SymbolEntry>& heads, const Shapes& known, const InferenceOptions& options)
      : graph_(heads), options_(options), shapes_(graph_.num_values(), Shape::unknown()) {
    const auto types = infer_types(heads, {}, {.is_tolerant = true});
    for (const SymbolNode* n : graph_.nodes()) {
      for (const std::optional<DType>& t : types.at(n)) types_.push_back(t.value_or(DType::float32));
    }
    size_t given = 0;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const SymbolNode& n = *graph_.nodes()[i];
      if (n.op) continue;
      const auto it = n.constant.defined() ? known.end() : known.find(n.name);
      shape(i, 0) = it == known.end() ? n.outputs[0].shape : it->second;
      given += it != known.end();
    }
    if (given < known.size()) expect_variables(known);
  }

  ByNode<Shape> run() {
    graph_.run([&](size_t i) { ask(i); });
    if (options_.closes && close()) graph_.run([&](size_t i) { ask(i); });
    ByNode<Shape> result;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const auto first = shapes_.begin() + std::ptrdiff_t(graph_.first_output(i));
      const SymbolNode* n = graph_.nodes()[i];
      result[n] = {first, first + std::ptrdiff_t(n->outputs.size())};
    }
    return result;
  }

 private:
  Shape& shape(size_t node, size_t output) { return shapes_[graph_.first_output(node) + output]; }

  void expect_variables(const Shapes& known) {
    for (const auto& [name, shape] : known) {
      const auto& nodes = graph_.nodes();
      const bool is_there =
          std::any_of(nodes.begin(), nodes.end(), [&](const SymbolNode* n) { return !n->op && n->name == name; });
      if (!is_there) throw ValueError(fmt::format("[infer_shape] there is no variable '{}'", name));
    }
  }

  void ask(size_t i) {
    const SymbolNode& n = *graph_.nodes()[i];
    std::vector<TensorMeta> in;
    std::vector<Shape> out;
    in.reserve(n.inputs.size()), out.reserve(n.outputs.size());
    bool is_ready = true, is_partial = false;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const size_t value = graph_.inputs(i)[k];
      in.push_back({shapes_[value], types_[value]});
      const bool inferable = k < 32 && (n.op->traits_of(n.attrs.get()).infers >> k & 1);
      if (in.back().shape.is_known()) continue;
      is_partial = is_partial || in.back().shape.ndim() >= 0;
      is_ready = is_ready && inferable;
    }
    for (size_t k = 0; k < n.outputs.size(); ++k) out.push_back(shape(i, k));
    ShapeFacts facts(n, in, out);
    const std::optional<Shape> open = open_shape(n, options_.zeros_are_open);
    const ShapeRule rule = shape_rule(*n.op);
    try {
      if (open) {
        facts.is(facts.out(), *open);
      } else {
        // a weight that is known in part first: infer takes it for known
        if (is_partial && rule) rule(n.attrs.get(), facts);
        if ((!is_ready || !infer(n, in, facts)) && !is_partial && rule) rule(n.attrs.get(), facts);
      }
    } catch (const Error& e) {
      if (options_.failed) *options_.failed = &n;
      std::rethrow_exception(e.with_context(fmt::format("; in node {}", n.name)));
    }
    bool has_learnt = false;
    const auto store = [&](size_t value, const Shape& found) {
      if (shapes_[value] == found) return;
      shapes_[value] = found;
      graph_.changed(value, i);
      has_learnt = true;
    };
    for (size_t k = 0; k < in.size(); ++k) store(graph_.inputs(i)[k], in[k].shape);
    for (size_t k = 0; k < out.size(); ++k) store(graph_.first_output(i) + k, out[k]);
    if (has_learnt && !is_ready) graph_.ask_again(i);  // one thing may follow from another
  }

  // The operator's own infer. False where it refuses the dtypes, which may be infer_type's concern.
  bool infer(const SymbolNode& n, std::vector<TensorMeta>& in, ShapeFacts& facts) {
    std::vector<TensorMeta*> inputs;
    for (TensorMeta& m : in) inputs.push_back(&m);
    if (wants_equal_shapes(n)) expect_equal_shapes(n.op_name, inputs);
    std::vector<TensorMeta> out(n.outputs.size());
    InferContext context(n.op->name().data(), n.op->traits, inputs, out);
    try {
      n.op->infer(n.attrs.get(), context);
    } catch (const TypeError&) {
      if (options_.checks_types) throw;
      return false;
    }
    for (int k = 0; k < int(out.size()); ++k) facts.is(facts.out(k), out[size_t(k)].shape);
    return true;
  }

  // Gives what is still open the shape that it has in a run.
  bool close() {
    bool any = false;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (!open_shape(*graph_.nodes()[i], options_.zeros_are_open)) continue;
      for (int64_t& d : std::span(&shape(i, 0)[0], size_t(std::max(shape(i, 0).ndim(), 0)))) {
        if (d >= 0) continue;
        d = 0, any = true;
      }
      if (any) graph_.changed(graph_.first_output(i), i);
    }
    return any;
  }

  FixedPoint graph_;
  const InferenceOptions& options_;
  std::vector<Shape> shapes_;
  std::vector<DType> types_;  // by value, as the shapes
};

}  // namespace

ByNode<Shape> infer_shapes(const std::vector<SymbolEntry>& heads, const Shapes& known,
                           const InferenceOptions& options) {
  return ShapeInference(heads, known, options).run();
}

}  // namespace kaon::graph
