// Evaluator: runs a program of Symbols operator by operator.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "kaon/graph/symbol.h"

namespace kaon::onnx::convert {

// Keeps what it has computed, so that several programs over the same variables share it. One thread.
class Evaluator {
 public:
  void bind(const Symbol& variable, const NDArray& value);
  bool is_bound(const Symbol& variable) const;
  // Throws StateError for a variable without a value, and what operators throw. Does not block.
  NDArray operator()(const Symbol& value);
  // The same for all that is still wanted: each array is dropped when it has been read for the last time.
  std::vector<NDArray> finish(std::span<const Symbol> values);

 private:
  using Reads = std::unordered_map<const graph::SymbolNode*, int>;
  // `left`: how often the nodes will still be read; null: unknown.
  void compute(const Symbol& value, Reads* left);

  std::unordered_map<const graph::SymbolNode*, std::vector<NDArray>> values_;
  std::vector<Symbol> keep_;  // the nodes live as long as the map names them
};

}  // namespace kaon::onnx::convert
