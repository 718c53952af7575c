#include "kaon/interchange/onnx/export/any_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "kaon/engine/error.h"
#include "kaon/interchange/onnx/convert/program.h"
#include "kaon/interchange/onnx/export/same_graph.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/ops/functions.h"

namespace kaon::onnx::exporting {

using format::Graph;
using format::Node;

namespace {

constexpr size_t kMaxNames = 3;
constexpr int64_t kMaxNumbers = 64;  // of an array whose numbers may each depend on sizes

// Of each product of sizes, by the bits of which sizes are its factors: how often it counts.
using Polynomial = std::vector<int64_t>;

bool is_constant(const Polynomial& p) {
  return std::all_of(p.begin() + 1, p.end(), [](int64_t c) { return c == 0; });
}

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

// a, a + b, a + 2 b ...
struct Range {
  double first = 0, step = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

// The array as a range, in any shape. Nothing: it is none.
std::optional<Range> as_range(const NDArray& array) {
  if (array.size() < 2 || array.dtype() == DType::boolean) return std::nullopt;
  const NDArray numbers = array.astype(DType::float64).reshape({-1});
  const auto values = numbers.data<const double>();
  const Range range{values[0], values[1] - values[0]};
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != range.first + double(i) * range.step) return std::nullopt;
  }
  return range;
}

NDArray one_of(const NDArray& array) { return array.reshape({-1}).slice(0, 1); }

bool is_uniform(const NDArray& array) {
  return array.size() > 0 &&
         convert::same_values(nd.broadcast_to(one_of(array), {Shape(array.size())}), array.reshape({-1}));
}

// One graph out of several.
class Joining {
 public:
  Joining(const AnySizes& sizes, std::vector<SizedGraph>& graphs) : sizes_(sizes), graphs_(graphs) {}

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

  // What the values of all graphs are by the sizes; nothing where no polynomial gives them.
  std::optional<Polynomial> fit(const std::vector<int64_t>& values) const {
    const size_t names = sizes_.names().size(), corners = size_t(1) << names;
    std::vector<uint64_t> p(values.begin(), values.begin() + std::ptrdiff_t(corners));
    for (size_t name = 0; name < names; ++name) {
      const size_t bit = size_t(1) << name;
      for (size_t at = 0; at < corners; ++at) {
        if ((at & bit) != 0) continue;
        const auto difference = int64_t(p[at | bit] - p[at]);  // from one size to the next
        if (difference % sizes_.step() != 0) return std::nullopt;
        p[at | bit] = uint64_t(difference / sizes_.step());
        p[at] -= p[at | bit] * uint64_t(graphs_[0].sizes[name]);
      }
    }
    Polynomial result(p.begin(), p.end());
    for (size_t graph = corners; graph < graphs_.size(); ++graph) {
      if (evaluate(result, graph) != values[graph]) return std::nullopt;
    }
    return result;
  }

  int64_t evaluate(const Polynomial& p, size_t graph) const {
    uint64_t sum = 0;
    for (size_t at = 0; at < p.size(); ++at) {
      uint64_t product = uint64_t(p[at]);
      for (size_t name = 0; name < sizes_.names().size(); ++name) {
        if ((at >> name & 1) != 0) product *= uint64_t(graphs_[graph].sizes[name]);
      }
      sum += product;
    }
    return int64_t(sum);
  }

  // Of the array's dimensions.
  std::optional<std::vector<Polynomial>> fit_dims(size_t array) const {
    std::vector<Polynomial> dims;
    const int rank = graphs_[0].graph.arrays()[array].ndim();
    for (const SizedGraph& g : graphs_) {
      if (g.graph.arrays()[array].ndim() != rank) return std::nullopt;
    }
    for (int axis = 0; axis < rank; ++axis) {
      std::vector<int64_t> values;
      for (const SizedGraph& g : graphs_) values.push_back(g.graph.arrays()[array].shape()[axis]);
      std::optional<Polynomial> p = fit(values);
      if (!p) return std::nullopt;
      dims.push_back(std::move(*p));
    }
    return dims;
  }

  std::optional<std::vector<Polynomial>> fit_numbers(size_t array) const {
    const NDArray& first = graphs_[0].graph.arrays()[array];
    if (first.dtype() != DType::int64 || first.ndim() > 1 || first.size() > kMaxNumbers) return std::nullopt;
    std::vector<Polynomial> numbers;
    for (size_t i = 0; i < size_t(first.size()); ++i) {
      std::vector<int64_t> values;
      for (const SizedGraph& g : graphs_) {
        if (g.graph.arrays()[array].shape() != first.shape()) return std::nullopt;
        values.push_back(g.graph.arrays()[array].data<const int64_t>()[i]);
      }
      std::optional<Polynomial> p = fit(values);
      if (!p) return std::nullopt;
      numbers.push_back(std::move(*p));
    }
    return numbers;
  }

  // One of the sizes, computed by the model, (1,).
  const std::string& size(size_t name) {
    std::string& value = values_[name];
    if (value.empty()) {
      const NamedSize& n = sizes_.names()[name];
      const auto& [input, axis] = n.places[0];
      value = builder().nodes("Shape", {builder().graph().inputs[input].name},
                              {integer("start", axis), integer("end", axis + 1)}, 1, n.name)[0];
    }
    return value;
  }

  const std::string& constant(int64_t value) {
    std::string& name = constants_[value];
    if (name.empty()) name = builder().constant({value});
    return name;
  }

  // The polynomial's value, (1,).
  const std::string& number(const Polynomial& p) {
    std::string& value = numbers_[p];
    if (!value.empty()) return value;
    std::string sum = p[0] == 0 && !is_constant(p) ? "" : constant(p[0]);
    for (size_t at = 1; at < p.size(); ++at) {
      if (p[at] == 0) continue;
      std::string product = p[at] == 1 ? "" : constant(p[at]);
      for (size_t name = 0; name < sizes_.names().size(); ++name) {
        if ((at >> name & 1) == 0) continue;
        product = product.empty() ? size(name) : node("Mul", {product, size(name)});
      }
      sum = sum.empty() ? product : node("Add", {sum, product});
    }
    return value = sum;
  }

  std::string node(std::string_view op_type, const std::vector<std::string>& inputs,
                   std::vector<Attribute> attributes = {}) {
    return builder().nodes(op_type, inputs, std::move(attributes), 1, "size")[0];
  }

  std::string list(const std::vector<Polynomial>& numbers) {
    std::vector<std::string> parts;
    for (size_t i = 0; i < numbers.size();) {
      std::vector<int64_t> known;
      while (i < numbers.size() && is_constant(numbers[i])) known.push_back(numbers[i++][0]);
      if (!known.empty()) parts.push_back(builder().constant(known));
      if (i < numbers.size()) parts.push_back(number(numbers[i++]));
    }
    return parts.size() == 1 ? parts[0] : node("Concat", parts, {integer("axis", 0)});
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
      if (const auto numbers = fit_numbers(i)) {
        if (std::none_of(numbers->begin(), numbers->end(), is_code)) with_numbers.insert(name);
        computed[name] = arrays[i].ndim() == 1 ? list(*numbers) : node("Squeeze", {number((*numbers)[0]), constant(0)});
      } else if (const std::string value = computed_array(i); !value.empty()) {
        computed[name] = value;
      } else {
        refuse(size_t(differs - graphs_.begin()),
               fmt::format("the constant {} of shape {} has other values,", name, arrays[i].shape().str()));
      }
      gone.insert(i);
    }
    remove(gone);
    allow_zeros(nodes, with_numbers);
    rename(nodes, computed);
  }

  static bool is_code(const Polynomial& p) { return is_constant(p) && p[0] <= 0; }

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

  // An array of one value, or a range, whose shape depends on sizes. "": it is neither.
  std::string computed_array(size_t i) {
    const NDArray first = builder().arrays()[i];
    const auto dims = fit_dims(i);
    if (!dims) return "";
    const auto all = [&](auto holds) {
      return std::all_of(graphs_.begin(), graphs_.end(),
                         [&](const SizedGraph& g) { return holds(g.graph.arrays()[i]); });
    };
    if (all([&](const NDArray& a) { return is_uniform(a) && convert::same_values(one_of(a), one_of(first)); })) {
      return node("Expand", {builder().initializer(one_of(first).copy(), "value"), list(*dims)});
    }
    const auto range = as_range(first);
    if (!range || !all([&](const NDArray& a) { return as_range(a) == range; })) return "";
    std::vector<int64_t> counts;
    for (const SizedGraph& g : graphs_) counts.push_back(g.graph.arrays()[i].size());
    const auto count = fit(counts);
    if (!count) return "";
    const DType dtype = first.dtype();
    const std::string steps =
        node("Range", {builder().scalar(0, DType::int64), node("Squeeze", {number(*count), constant(0)}),
                       builder().scalar(1, DType::int64)});
    std::string value = node("Cast", {steps}, {integer("to", int64_t(format::element_type_of(dtype)))});
    if (range->step != 1) value = node("Mul", {value, builder().scalar(range->step, dtype)});
    if (range->first != 0) value = node("Add", {value, builder().scalar(range->first, dtype)});
    return first.ndim() == 1 ? value : node("Reshape", {value, list(*dims)}, {integer("allowzero", 1)});
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
      const auto p = fit(values);
      for (size_t name = 0; p && name < sizes_.names().size(); ++name) {
        Polynomial alone(p->size());
        alone[size_t(1) << name] = 1;
        if (*p == alone) info.dims[axis].name = sizes_.names()[name].name;
      }
    }
  }

  Builder& builder() { return graphs_[0].graph; }

  const AnySizes& sizes_;
  std::vector<SizedGraph>& graphs_;
  std::map<size_t, std::string> values_;
  std::map<int64_t, std::string> constants_;
  std::map<Polynomial, std::string> numbers_;
};

}  // namespace

AnySizes::AnySizes(std::vector<NamedSize> names, int64_t step) : names_(std::move(names)), step_(step) {
  if (names_.size() > kMaxNames)
    throw ValueError(
        fmt::format("[onnx] at most {} names of dimensions are written, got {}", kMaxNames, names_.size()));
  // One is a size by itself to many operators.
  Sizes least;
  for (const NamedSize& n : names_) least.push_back(std::max<int64_t>(n.size, 2));
  for (size_t corner = 0; corner < size_t(1) << names_.size(); ++corner) {
    Sizes sizes = least;
    for (size_t i = 0; i < sizes.size(); ++i) sizes[i] += step * int64_t(corner >> i & 1);
    needed_.push_back(sizes);
  }
  for (size_t i = 0; i < least.size(); ++i) least[i] += step * (3 + 2 * int64_t(i));
  needed_.push_back(least);
}

std::string AnySizes::describe(const Sizes& sizes) const {
  std::string text;
  for (size_t i = 0; i < names_.size(); ++i)
    text += fmt::format("{}{} = {}", i == 0 ? "" : ", ", names_[i].name, sizes[i]);
  return text;
}

Sizes AnySizes::known() const {
  Sizes sizes;
  for (const NamedSize& n : names_) sizes.push_back(n.size);
  return sizes;
}

std::vector<Sizes> AnySizes::further() const {
  std::vector<Sizes> all;
  for (size_t i = 0; i < names_.size(); ++i) {
    const int64_t least = needed_[0][i];
    const auto add = [&](int64_t size) {
      all.push_back(needed_[0]);
      all.back()[i] = size;
    };
    for (const int64_t more : {17, 67, 1009}) add(least + step_ * ((more + step_ - 1) / step_));
    for (const int64_t round : {8, 48, 128}) {
      if (round > least) add(round);
    }
  }
  return all;
}

Builder AnySizes::joined(std::vector<SizedGraph> graphs) const {
  Joining(*this, graphs).run();
  return std::move(graphs[0].graph);
}

Sizes AnySizes::with_one(size_t name) const {
  Sizes sizes = needed_[0];
  sizes[name] = 1;
  return sizes;
}

bool AnySizes::holds_for(const Builder& joined, const SizedGraph& graph) const {
  const auto& outputs = joined.graph().outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto &dims = outputs[i].dims, &others = graph.graph.graph().outputs[i].dims;
    if (dims.size() != others.size()) return false;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      int64_t expected = dims[axis].value;
      for (size_t n = 0; n < names_.size(); ++n) {
        if (dims[axis].name == names_[n].name) expected = graph.sizes[n];
      }
      if (expected >= 0 && expected != others[axis].value) return false;
    }
  }
  return true;
}

}  // namespace kaon::onnx::exporting
