#include "kaon/interchange/onnx/sizes/joining.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "kaon/engine/error.h"
#include "kaon/interchange/onnx/convert/program.h"
#include "kaon/interchange/onnx/format/structure.h"
#include "kaon/interchange/onnx/sizes/computing.h"
#include "kaon/interchange/onnx/sizes/formula.h"
#include "kaon/interchange/onnx/sizes/same_graph.h"
#include "kaon/ops/functions.h"

namespace kaon::onnx::exporting {

using format::Graph;
using format::Node;

namespace {

std::string text_of(const format::Attribute& a) {
  switch (a.type) {
    case format::Attribute::Type::integer: return std::to_string(a.i);
    case format::Attribute::Type::float32: return fmt::format("{}", a.f);
    case format::Attribute::Type::integers: {
      std::string all;
      for (int64_t i : a.integers) all += (all.empty() ? "" : ", ") + std::to_string(i);
      return '[' + all + ']';
    }
    default: return "another";
  }
}

// One graph out of several.
class Joining {
 public:
  Joining(const AnySizes& sizes, std::vector<SizedGraph>& graphs)
      : sizes_(sizes), graphs_(graphs), fit_(sizes_of(graphs), sizes.step()), computing_(sizes.names(), fit_, graphs) {}

  void run() {
    Graph& graph = builder().graph();
    compare_nodes();
    std::vector<std::vector<Node>*> all;
    for (SizedGraph& g : graphs_) all.push_back(&g.graph.graph().nodes);
    open_bodies(all);
    std::vector<Node> nodes = std::move(graph.nodes);
    graph.nodes.clear();
    compare_arrays(nodes);
    std::move(nodes.begin(), nodes.end(), std::back_inserter(graph.nodes));
    for (const NamedSize& name : sizes_.names()) {
      for (const auto& [input, axis] : name.places) graph.inputs[input].dims[size_t(axis)] = {-1, name.name};
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) name_dims(graph.outputs[i], i);
  }

 private:
  static std::vector<Sizes> sizes_of(const std::vector<SizedGraph>& graphs) {
    std::vector<Sizes> all;
    for (const SizedGraph& g : graphs) all.push_back(g.sizes);
    return all;
  }

  [[noreturn]] void refuse(size_t graph, const std::string& what) const {
    throw ValueError(fmt::format("[onnx] {} cannot have any size: {} for {} and for {}",
                                 sizes_.names().size() == 1 ? sizes_.names()[0].name : "the named dimensions", what,
                                 sizes_.describe(graphs_[0].sizes), sizes_.describe(graphs_[graph].sizes)));
  }

  void compare_nodes() const {
    const auto& first = graphs_[0].graph.graph().nodes;
    for (size_t g = 1; g < graphs_.size(); ++g) {
      const auto& other = graphs_[g].graph.graph().nodes;
      for (size_t i = 0; i < std::min(first.size(), other.size()); ++i) {
        if (!same_structure(first[i], other[i]))
          refuse(g, fmt::format("the model has other nodes from {} ({}) on", first[i].name, first[i].op_type));
        if (const auto* a = differing_attribute(first[i], other[i])) {
          refuse(g, fmt::format("node {} ({}) has the attribute {} with other values, {} and {},", first[i].name,
                                first[i].op_type, a->name, text_of(*a), text_of(*other[i].find(a->name))));
        }
      }
      if (first.size() != other.size() || graphs_[g].graph.arrays().size() != graphs_[0].graph.arrays().size())
        refuse(g, "the model has other numbers of nodes");
    }
  }

  // Bodies of loops and branches say no sizes that differ.
  static void open_bodies(const std::vector<std::vector<Node>*>& all) {
    for (size_t n = 0; n < all[0]->size(); ++n) {
      for (size_t a = 0; a < (*all[0])[n].attributes.size(); ++a) {
        for (size_t b = 0; b < (*all[0])[n].attributes[a].graphs.size(); ++b) {
          std::vector<Graph*> bodies;
          std::vector<std::vector<Node>*> inside;
          for (std::vector<Node>* nodes : all) {
            bodies.push_back((*nodes)[n].attributes[a].graphs[b].get());
            inside.push_back(&bodies.back()->nodes);
          }
          open_dims(bodies, &Graph::inputs);
          open_dims(bodies, &Graph::outputs);
          open_bodies(inside);
        }
      }
    }
  }

  static void open_dims(const std::vector<Graph*>& bodies, std::vector<format::ValueInfo> Graph::*values) {
    auto& first = bodies[0]->*values;
    for (size_t v = 0; v < first.size(); ++v) {
      for (size_t axis = 0; axis < first[v].dims.size(); ++axis) {
        const bool differs = std::any_of(bodies.begin(), bodies.end(), [&](const Graph* body) {
          return (body->*values)[v].dims[axis].value != first[v].dims[axis].value;
        });
        if (differs) first[v].dims[axis] = {-1, ""};
      }
    }
  }

  static bool is_read_inside(const Node& node, const std::string& value) {
    for (const auto& a : node.attributes) {
      for (const auto& g : a.graphs) {
        for (const Node& n : g->nodes) {
          if (std::count(n.inputs.begin(), n.inputs.end(), value) > 0 || is_read_inside(n, value)) return true;
        }
      }
    }
    return false;
  }

  // Whether all who read the value take it as the shape of a Reshape that copies no dimension.
  static bool only_reshapes(const std::vector<Node>& nodes, const std::string& value) {
    bool is_read = false;
    for (const Node& n : nodes) {
      if (is_read_inside(n, value)) return false;
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (n.inputs[i] != value) continue;
        if (n.op_type != "Reshape" || i != 1 || n.find("allowzero")) return false;
        is_read = true;
      }
    }
    return is_read;
  }

  void compare_arrays(std::vector<Node>& nodes) {
    std::vector<NDArray>& arrays = builder().arrays();
    std::map<std::string, std::string> computed;  // initializers that the model computes
    std::set<std::string> with_numbers;           // those that are no codes of a Reshape
    std::set<size_t> gone;
    const size_t count = arrays.size();
    for (size_t i = 0; i < count; ++i) {
      const auto differs = std::find_if(graphs_.begin() + 1, graphs_.end(), [&](const SizedGraph& g) {
        return !convert::same_values(g.graph.arrays()[i], arrays[i]);
      });
      if (differs == graphs_.end()) continue;
      const std::string name = builder().graph().initializers[i].name;
      if (const auto open = with_code(i); !open.empty() && only_reshapes(nodes, name)) {
        arrays[i] = nd.array(open);
        continue;
      }
      if (const auto numbers = computing_.numbers(i)) {
        if (std::none_of(numbers->begin(), numbers->end(), is_code)) with_numbers.insert(name);
        computed[name] = arrays[i].ndim() == 1 ? computing_.list(*numbers) : computing_.scalar((*numbers)[0]);
      } else if (const std::string value = computing_.array(i); !value.empty()) {
        computed[name] = value;
      } else {
        const auto reader = std::ranges::find_if(
            nodes, [&](const Node& n) { return std::ranges::find(n.inputs, name) != n.inputs.end(); });
        refuse(size_t(differs - graphs_.begin()),
               fmt::format("the constant {} of shape {}{} has other values,", name, arrays[i].shape().str(),
                           reader == nodes.end() ? "" : fmt::format(", which {} reads,", format::describe(*reader))));
      }
      gone.insert(i);
    }
    remove(gone);
    allow_zeros(nodes, with_numbers);
    rename(nodes, computed);
  }

  static bool is_code(const Formula& f) { return f.is_constant() && f.terms[0] <= 0; }

  // A size that is computed may be 0.
  static void allow_zeros(std::vector<Node>& nodes, const std::set<std::string>& shapes) {
    for (Node& n : nodes) {
      if (n.op_type == "Reshape" && shapes.contains(n.inputs[1]) && !n.find("allowzero"))
        n.attributes.push_back(integer("allowzero", 1));
    }
  }

  // The shape of a Reshape with -1 in the place of the only dimension that differs; else {}.
  std::vector<int64_t> with_code(size_t array) const {
    const NDArray& first = graphs_[0].graph.arrays()[array];
    if (first.dtype() != DType::int64 || first.ndim() != 1) return {};
    std::vector<int64_t> codes = first.asvector<int64_t>();
    for (const SizedGraph& g : graphs_) {
      const NDArray& other = g.graph.arrays()[array];
      if (other.shape() != first.shape()) return {};
      for (size_t k = 0; k < codes.size(); ++k) {
        if (other.data<const int64_t>()[k] != first.data<const int64_t>()[k]) codes[k] = -1;
      }
    }
    const bool is_one = std::count(codes.begin(), codes.end(), -1) == 1;
    return is_one && std::count(codes.begin(), codes.end(), 0) == 0 ? codes : std::vector<int64_t>();
  }

  void remove(const std::set<size_t>& gone) {
    auto& initializers = builder().graph().initializers;
    auto& arrays = builder().arrays();
    for (auto i = gone.rbegin(); i != gone.rend(); ++i) {
      initializers.erase(initializers.begin() + std::ptrdiff_t(*i));
      arrays.erase(arrays.begin() + std::ptrdiff_t(*i));
    }
  }

  static void rename(std::vector<Node>& nodes, const std::map<std::string, std::string>& names) {
    for (Node& n : nodes) {
      for (std::string& input : n.inputs) {
        if (const auto at = names.find(input); at != names.end()) input = at->second;
      }
      for (auto& a : n.attributes) {
        for (auto& g : a.graphs) rename(g->nodes, names);
      }
    }
  }

  // The output's dimensions: numbers where they are the same in all graphs, names where they are sizes, else nothing.
  void name_dims(format::ValueInfo& info, size_t output) const {
    for (size_t axis = 0; axis < info.dims.size(); ++axis) {
      std::vector<int64_t> values;
      for (const SizedGraph& g : graphs_) values.push_back(g.graph.graph().outputs[output].dims[axis].value);
      if (std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; })) continue;
      info.dims[axis] = {-1, ""};
      const auto f = fit_(values);
      for (size_t name = 0; f && name < sizes_.names().size(); ++name) {
        Formula alone{.terms = std::vector<int64_t>(f->terms.size())};
        alone.terms[size_t(1) << name] = 1;
        if (*f == alone) info.dims[axis].name = sizes_.names()[name].name;
      }
    }
  }

  Builder& builder() { return graphs_[0].graph; }

  const AnySizes& sizes_;
  std::vector<SizedGraph>& graphs_;
  Fitting fit_;
  Computing computing_;
};

}  // namespace

Builder join_graphs(const AnySizes& sizes, std::vector<SizedGraph> graphs) {
  Joining(sizes, graphs).run();
  return std::move(graphs[0].graph);
}

}  // namespace kaon::onnx::exporting
