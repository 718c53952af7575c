// The order in which the nodes of a program are asked for what they know, until none learns anything.
#pragma once

#include <unordered_map>
#include <vector>

#include "kaon/graph/ir/symbol_node.h"

namespace kaon::graph {

// A value is known by a number: output i of node n is first_output(n) + i.
class FixedPoint {
 public:
  explicit FixedPoint(const std::vector<SymbolEntry>& heads);

  const std::vector<SymbolNode*>& nodes() const { return nodes_; }
  size_t num_values() const { return makers_.size(); }
  size_t first_output(size_t node) const { return first_outputs_[node]; }
  const std::vector<size_t>& inputs(size_t node) const { return inputs_[node]; }
  size_t node_of(const SymbolNode* n) const { return index_.at(n); }

  // The value has changed: who made it and who reads it is asked again, but `self`.
  void changed(size_t value, size_t self);
  void ask_again(size_t node);
  // Asks each operator, then those that ask_again and changed name, forward and backward in turns.
  template <class Ask>
  void run(Ask&& ask) {
    while (num_waiting_ > 0) {
      for (size_t i = 0; i < nodes_.size(); ++i) {
        if (take(i)) ask(i);
      }
      for (size_t i = nodes_.size(); i-- > 0 && num_waiting_ > 0;) {
        if (take(i)) ask(i);
      }
    }
  }

 private:
  bool take(size_t node) {
    if (!waiting_[node]) return false;
    --num_waiting_;
    waiting_[node] = false;
    return true;
  }

  std::vector<SymbolNode*> nodes_;
  std::unordered_map<const SymbolNode*, size_t> index_;
  std::vector<size_t> first_outputs_;
  std::vector<std::vector<size_t>> inputs_, readers_;  // values of a node, nodes of a value
  std::vector<size_t> makers_;
  std::vector<bool> waiting_;
  size_t num_waiting_ = 0;
};

}  // namespace kaon::graph
