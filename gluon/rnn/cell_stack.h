// SequentialRNNCell, HybridSequentialRNNCell: cells one on the other; BidirectionalCell: one for each direction.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/rnn/recurrent_cell.h"

namespace KAON_API kaon {
namespace gluon::rnn {

namespace detail {

template <class Derived>
class CellStack : public RecurrentCell<Derived> {
 public:
  // Puts cells on top. They get the keys "0", "1", ... in files, and names such as "lstm0".
  template <class... C>
  void add(const C&... cells) {
    (append(cells), ...);
  }
  size_t size() const { return cells_->size(); }
  const AnyCell& operator[](int64_t index) const;  // negative: from the end; throws IndexError

  // The states of all cells, those of the lowest first.
  std::vector<StateInfo> state_info(int64_t batch_size = 0) const;
  void reset() const;
  bool can_step() const;  // not with a BidirectionalCell
  // Unrolls one cell after the other.
  template <class A>
  Unrolled<A> unroll_sequence(const UnrollCall<A>& call) const;

  // One step of each cell. Throws ValueError where one of them cannot step.
  auto hybrid_forward(auto, auto x, const auto& states) {
    step_begins(states.size());
    auto next = states;
    size_t first = 0;
    for (const AnyCell& cell : *cells_) {
      const auto begin = states.begin() + std::ptrdiff_t(first);
      auto [y, own] = cell(x, {begin, begin + std::ptrdiff_t(cell.num_states())});
      std::copy(own.begin(), own.end(), next.begin() + std::ptrdiff_t(first));
      first += own.size();
      x = y;
    }
    return std::pair(x, next);
  }

 protected:
  explicit CellStack(std::string_view hint) : RecurrentCell<Derived>(hint) {}

 private:
  void append(const AnyCell& cell);
  void step_begins(size_t states) const;
  std::shared_ptr<std::vector<AnyCell>> cells_ = std::make_shared<std::vector<AnyCell>>();
};

}  // namespace detail

// The output of a cell is the input of the next. Steps are one plan when it is hybridized.
struct HybridSequentialRNNCell : detail::CellStack<HybridSequentialRNNCell> {
  HybridSequentialRNNCell();
};

// The same, but hybridize() reaches the cells alone: each is a plan of its own.
struct SequentialRNNCell : detail::CellStack<SequentialRNNCell> {
  SequentialRNNCell();
};

// Two cells along a sequence, one from each end: the outputs are side by side, those of l_cell first, and so are the
// states. It can only be unrolled; a step throws ValueError.
struct BidirectionalCell : RecurrentCell<BidirectionalCell> {
  BidirectionalCell(const AnyCell& l_cell, const AnyCell& r_cell);
  std::vector<StateInfo> state_info(int64_t batch_size = 0) const;
  void reset() const;
  static constexpr bool can_step() { return false; }
  template <class A>
  detail::Unrolled<A> unroll_sequence(const detail::UnrollCall<A>& call) const;
  auto hybrid_forward(auto, auto x, const auto& states) {
    refuse_step();
    return std::pair(x, states);
  }

  AnyCell l_cell, r_cell;

 private:
  [[noreturn]] void refuse_step() const;
};

}  // namespace gluon::rnn
}  // namespace kaon
