#include "kaon/graph/inference/fixed_point.h"

namespace kaon::graph {

FixedPoint::FixedPoint(const std::vector<SymbolEntry>& heads) : nodes_(topological_order(heads)) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    index_[nodes_[i]] = i;
    first_outputs_.push_back(makers_.size());
    makers_.insert(makers_.end(), nodes_[i]->outputs.size(), i);
  }
  readers_.resize(makers_.size());
  inputs_.resize(nodes_.size());
  waiting_.resize(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const SymbolEntry& e : nodes_[i]->inputs) {
      inputs_[i].push_back(first_outputs_[index_.at(e.node.get())] + e.output);
      readers_[inputs_[i].back()].push_back(i);
    }
    ask_again(i);
  }
}

void FixedPoint::changed(size_t value, size_t self) {
  if (makers_[value] != self) ask_again(makers_[value]);
  for (size_t reader : readers_[value]) {
    if (reader != self) ask_again(reader);
  }
}

void FixedPoint::ask_again(size_t node) {
  if (!nodes_[node]->op || waiting_[node]) return;
  waiting_[node] = true;
  ++num_waiting_;
}

}  // namespace kaon::graph
