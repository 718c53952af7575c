// Program: a symbol that runs on arrays.
#pragma once

#include <memory>
#include <mutex>

#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/mxnet/node/operator_node.h"

namespace kaon::mxnet {

// The options of a program for MXNet, which cannot choose them itself: winograd, as MXNet's convolutions on GPUs have
// it, unless KAON_WINOGRAD=0 is in the environment, and autotune where KAON_AUTOTUNE=1 is. Throws ValueError for other
// values of these.
HybridizeOptions options_of_environment();

// A copy of a symbol, and its plans. An operator that makes an array of a shape with zeros in it (the first states of a
// recurrent cell: shape=(0, 100)) makes one of the shape that the rest of the program asks for, while NumPy's shapes
// are off. Thread safety: any thread.
class Program {
 public:
  // Throws ValueError for a symbol without outputs, and one with an operator that has no inputs yet.
  Program(const Symbol& symbol, HybridizeOptions options, std::string name);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Symbol& symbol() const { return symbol_; }
  const std::vector<std::string>& input_names() const { return names_; }  // depth first
  size_t num_outputs() const { return symbol_.entries().size(); }
  // Shapes in it depend on values: it has no plan, and runs node by node.
  bool depends_on_values() const { return depends_on_values_; }

  // What is planned for inputs like these. Throws ShapeError, naming a node, where the shapes do not fit.
  std::shared_ptr<graph::CachedGraph> graph_for(std::span<const TensorMeta> inputs);
  // The same program with all shapes of what it makes, which runs node by node.
  Symbol symbol_for(std::span<const TensorMeta> inputs) const;
  // Shapes and dtypes of the outputs.
  std::vector<TensorMeta> infer(std::span<const TensorMeta> inputs) const;

 private:
  struct Entry {
    std::vector<Shape> shapes;  // of the inputs
    std::shared_ptr<graph::CachedGraph> graph;
  };
  std::shared_ptr<graph::CachedGraph> make_graph(const Symbol& symbol) const;

  Symbol symbol_;
  std::vector<std::string> names_;
  HybridizeOptions options_;
  std::string name_;
  bool depends_on_values_ = false;
  bool is_open_ = false;  // makes arrays whose shapes follow from the inputs
  std::mutex lock_;
  std::vector<Entry> entries_;  // one, unless it is open
};

std::vector<TensorMeta> metas_of(std::span<const NDArray* const> arrays);

}  // namespace kaon::mxnet
