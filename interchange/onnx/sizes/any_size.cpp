#include "kaon/interchange/onnx/sizes/any_size.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/error.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/interchange/onnx/sizes/joining.h"

namespace kaon::onnx::exporting {

using format::Graph;

namespace {

constexpr size_t kMaxNames = 3;

// "(n, 3)"
std::string text_of(const std::vector<format::Dimension>& dims) {
  std::string all;
  for (const format::Dimension& d : dims) {
    all += all.empty() ? "" : ", ";
    all += d.value >= 0 ? std::to_string(d.value) : d.name.empty() ? "?" : d.name;
  }
  return '(' + all + ')';
}

// ", of node a (Add)", the node that computes the output; "" where it is an input or a constant.
std::string maker_of(const Graph& graph, std::string value) {
  for (auto n = graph.nodes.rbegin(); n != graph.nodes.rend(); ++n) {
    if (std::find(n->outputs.begin(), n->outputs.end(), value) == n->outputs.end()) continue;
    if (n->op_type != "Identity") return fmt::format(", of node {} ({}),", n->name, n->op_type);
    value = n->inputs[0];  // it gives the output its name
  }
  return "";
}

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

Builder AnySizes::joined(std::vector<SizedGraph> graphs) const { return join_graphs(*this, std::move(graphs)); }

Sizes AnySizes::with_one(size_t name) const {
  Sizes sizes = needed_[0];
  sizes[name] = 1;
  return sizes;
}

std::string AnySizes::difference(const Builder& joined, const SizedGraph& graph) const {
  const auto& outputs = joined.graph().outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto &dims = outputs[i].dims, &others = graph.graph.graph().outputs[i].dims;
    bool is_same = dims.size() == others.size();
    for (size_t axis = 0; is_same && axis < dims.size(); ++axis) {
      int64_t expected = dims[axis].value;
      for (size_t n = 0; n < names_.size(); ++n) {
        if (dims[axis].name == names_[n].name) expected = graph.sizes[n];
      }
      is_same = expected < 0 || expected == others[axis].value;
    }
    if (is_same) continue;
    return fmt::format("the output {}{} has the shape {}, for {} it has {}", outputs[i].name,
                       maker_of(joined.graph(), outputs[i].name), text_of(dims), describe(graph.sizes),
                       text_of(others));
  }
  return "";
}

}  // namespace kaon::onnx::exporting
