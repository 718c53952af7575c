#include "kaon/gluon/rnn/cell_stack.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/gluon/internal/block_node.h"

namespace kaon::gluon::rnn {
namespace detail {

template <class Derived>
void CellStack<Derived>::append(const AnyCell& cell) {
  const auto same = std::count_if(cells_->begin(), cells_->end(),
                                  [&](const AnyCell& c) { return c.class_name() == cell.class_name(); });
  this->add_child(std::to_string(size()), fmt::format("{}{}", cell.class_name(), same), cell);
  cells_->push_back(cell);
}

template <class Derived>
const AnyCell& CellStack<Derived>::operator[](int64_t index) const {
  const int64_t n = int64_t(size()), i = index < 0 ? index + n : index;
  if (i < 0 || i >= n) {
    throw IndexError(fmt::format("[{}] cell {} does not exist: there are {}", this->name(), index, n));
  }
  return (*cells_)[size_t(i)];
}

template <class Derived>
std::vector<StateInfo> CellStack<Derived>::state_info(int64_t batch_size) const {
  std::vector<StateInfo> all;
  for (const AnyCell& cell : *cells_) {
    for (const StateInfo& s : cell.state_info(batch_size)) all.push_back(s);
  }
  return all;
}

template <class Derived>
void CellStack<Derived>::reset() const {
  for (const AnyCell& cell : *cells_) cell.reset();
}

template <class Derived>
bool CellStack<Derived>::can_step() const {
  return std::all_of(cells_->begin(), cells_->end(), [](const AnyCell& c) { return c.can_step(); });
}

template <class Derived>
void CellStack<Derived>::step_begins(size_t states) const {
  this->expect_states(state_info().size(), states);
}

template <class Derived>
template <class A>
Unrolled<A> CellStack<Derived>::unroll_sequence(const UnrollCall<A>& call) const {
  const std::vector<A> states = first_states(*this, state_info(), call);
  Unrolled<A> all{call.inputs, {}};
  size_t first = 0;
  for (const AnyCell& cell : *cells_) {
    const auto begin = states.begin() + std::ptrdiff_t(first);
    UnrollCall<A> own = call;
    own.inputs = std::move(all.outputs);
    own.begin_state.assign(begin, begin + std::ptrdiff_t(cell.num_states()));
    if (&cell != &cells_->back()) own.merge_outputs.reset();
    first += own.begin_state.size();
    Unrolled<A> result = cell.unroll_sequence(std::move(own));
    all.outputs = std::move(result.outputs);
    all.states.insert(all.states.end(), result.states.begin(), result.states.end());
  }
  if (cells_->empty()) all.outputs = finish(call, std::move(all.outputs), false);
  return all;
}

template class CellStack<HybridSequentialRNNCell>;
template class CellStack<SequentialRNNCell>;
template Unrolled<NDArray> CellStack<HybridSequentialRNNCell>::unroll_sequence(const UnrollCall<NDArray>&) const;
template Unrolled<Symbol> CellStack<HybridSequentialRNNCell>::unroll_sequence(const UnrollCall<Symbol>&) const;
template Unrolled<NDArray> CellStack<SequentialRNNCell>::unroll_sequence(const UnrollCall<NDArray>&) const;
template Unrolled<Symbol> CellStack<SequentialRNNCell>::unroll_sequence(const UnrollCall<Symbol>&) const;

}  // namespace detail

HybridSequentialRNNCell::HybridSequentialRNNCell() : CellStack("hybridsequentialrnncell") {}

SequentialRNNCell::SequentialRNNCell() : CellStack("sequentialrnncell") { node_->runs_itself = true; }

// --- BidirectionalCell

BidirectionalCell::BidirectionalCell(const AnyCell& l, const AnyCell& r)
    : RecurrentCell("bidirectionalcell"), l_cell(child("l_cell", l)), r_cell(child("r_cell", r)) {}

std::vector<StateInfo> BidirectionalCell::state_info(int64_t batch_size) const {
  std::vector<StateInfo> all = l_cell.state_info(batch_size);
  for (const StateInfo& s : r_cell.state_info(batch_size)) all.push_back(s);
  return all;
}

void BidirectionalCell::reset() const {
  l_cell.reset();
  r_cell.reset();
}

void BidirectionalCell::refuse_step() const {
  throw ValueError(fmt::format("[{}] it needs the whole sequence and makes no single steps: use unroll()", name()));
}

template <class A>
detail::Unrolled<A> BidirectionalCell::unroll_sequence(const detail::UnrollCall<A>& call) const {
  const Functions<A> F;
  detail::UnrollCall<A> own = call;
  own.inputs = detail::Sequence<A>(detail::steps_of(*this, call));
  const std::vector<A> states = detail::first_states(*this, state_info(), call);
  const auto middle = states.begin() + std::ptrdiff_t(l_cell.num_states());

  own.begin_state.assign(states.begin(), middle);
  own.merge_outputs = false;
  detail::UnrollCall<A> other = own;
  other.inputs = detail::Sequence<A>(detail::reversed(own.inputs.arrays, call.valid_length));
  other.begin_state.assign(middle, states.end());
  detail::Unrolled<A> left = l_cell.unroll_sequence(std::move(own)), right = r_cell.unroll_sequence(std::move(other));

  const std::vector<A> back = detail::reversed(right.outputs.arrays, call.valid_length);
  std::vector<A> outputs;
  for (size_t i = 0; i < back.size(); ++i) outputs.push_back(F.concat({.dim = 1}, left.outputs.arrays[i], back[i]));
  left.states.insert(left.states.end(), right.states.begin(), right.states.end());
  return {detail::finish(call, detail::Sequence<A>(std::move(outputs)), true), std::move(left.states)};
}

template detail::Unrolled<NDArray> BidirectionalCell::unroll_sequence(const detail::UnrollCall<NDArray>&) const;
template detail::Unrolled<Symbol> BidirectionalCell::unroll_sequence(const detail::UnrollCall<Symbol>&) const;

}  // namespace kaon::gluon::rnn
