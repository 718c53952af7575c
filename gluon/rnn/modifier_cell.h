// Cells that change others: DropoutCell, ZoneoutCell, ResidualCell, VariationalDropoutCell.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/rnn/recurrent_cell.h"

namespace KAON_API kaon {
namespace gluon::rnn {

struct DropoutCellOptions {
  Shape axes{};  // axes along which all elements share one draw
};
static_assert(std::is_trivially_destructible_v<DropoutCellOptions>);

// nn::Dropout of the input, without states: a part of a SequentialRNNCell. Throws ValueError for a rate outside [0, 1).
struct DropoutCell : RecurrentCell<DropoutCell> {
  explicit DropoutCell(double rate, const DropoutCellOptions& options = {});
  std::vector<StateInfo> state_info(int64_t = 0) const { return {}; }
  // A sequence that is one array is dropped out of as a whole.
  template <class A>
  detail::Unrolled<A> unroll_sequence(const detail::UnrollCall<A>& call) const;
  auto hybrid_forward(auto F, auto x, const auto& states) {
    expect_states(0, states.size());
    return std::pair(rate_ > 0 ? F.as("fwd").Dropout(x, {.p = rate_, .axes = axes_}) : x, states);
  }

 private:
  double rate_;
  Shape axes_;
};

namespace detail {

// A cell around another, with its states.
template <class Derived>
class ModifierCell : public RecurrentCell<Derived> {
 public:
  std::vector<StateInfo> state_info(int64_t batch_size = 0) const { return base_cell.state_info(batch_size); }
  void reset() const { base_cell.reset(); }
  bool can_step() const { return base_cell.can_step(); }

  AnyCell base_cell;

 protected:
  ModifierCell(std::string_view hint, const AnyCell& base)
      : RecurrentCell<Derived>(hint), base_cell(this->child("base_cell", base)) {}
};

}  // namespace detail

struct ZoneoutOptions {
  double zoneout_outputs = 0;
  double zoneout_states = 0;
};

// In training each element of the output keeps, with probability zoneout_outputs, what it was after the step before (0
// before the first), and each of the states with zoneout_states (Krueger et al. 2017). Throws ValueError for a
// BidirectionalCell, and for probabilities outside [0, 1). Hybridized, its base cell alone is a plan, unless a planned
// block unrolls it; it cannot be the body of a loop in a trace (TraceError).
struct ZoneoutCell : detail::ModifierCell<ZoneoutCell> {
  explicit ZoneoutCell(const AnyCell& base_cell, const ZoneoutOptions& options = {});
  void reset() const {
    base_cell.reset();
    previous_.reset();
  }
  auto hybrid_forward(auto F, auto x, const auto& states) {
    auto [y, next] = base_cell(x, states);
    auto mask = [&](double p, const auto& like) { return F.Dropout(F.ones_like(like), {.p = p}); };
    if (outputs_ > 0) {
      const auto* const previous = previous_.template find<decltype(x)>(*this);
      y = F.where(mask(outputs_, y), y, previous ? *previous : F.zeros_like(y));
      previous_.keep(y);
    }
    if (states_ > 0) {
      for (size_t i = 0; i < next.size(); ++i) next[i] = F.where(mask(states_, next[i]), next[i], states[i]);
    }
    return std::pair(y, next);
  }

 private:
  double outputs_, states_;
  detail::Carried previous_;  // the output
};

// The output of the base cell plus the input, which have one shape (Wu et al. 2016).
struct ResidualCell : detail::ModifierCell<ResidualCell> {
  explicit ResidualCell(const AnyCell& base_cell);
  template <class A>
  detail::Unrolled<A> unroll_sequence(const detail::UnrollCall<A>& call) const;
  auto hybrid_forward(auto, auto x, const auto& states) {
    auto [y, next] = base_cell(x, states);
    return std::pair(y + x, next);
  }
};

struct VariationalDropoutOptions {
  double drop_inputs = 0;
  double drop_states = 0;  // of the first state
  double drop_outputs = 0;
};

// Dropout that draws once for all steps of a sequence (Gal and Ghahramani 2016): from the first step to reset(), which
// unroll() calls, and with drop_states = 0 for the sequence as a whole. Throws ValueError for rates outside [0, 1), and
// for drop_states with a BidirectionalCell. Hybridized as ZoneoutCell.
struct VariationalDropoutCell : detail::ModifierCell<VariationalDropoutCell> {
  explicit VariationalDropoutCell(const AnyCell& base_cell, const VariationalDropoutOptions& options = {});
  void reset() const;
  template <class A>
  detail::Unrolled<A> unroll_sequence(const detail::UnrollCall<A>& call) const;
  auto hybrid_forward(auto F, auto x, auto states) {
    if (rates_.drop_states > 0) states[0] = states[0] * mask(F, states_mask_, rates_.drop_states, states[0]);
    if (rates_.drop_inputs > 0) x = x * mask(F, inputs_mask_, rates_.drop_inputs, x);
    auto [y, next] = base_cell(x, states);
    if (rates_.drop_outputs > 0) y = y * mask(F, outputs_mask_, rates_.drop_outputs, y);
    return std::pair(y, next);
  }

 private:
  template <class A>
  A mask(auto F, const detail::Carried& kept, double rate, const A& like) const {
    if (const A* const drawn = kept.find<A>(*this)) return *drawn;
    const A drawn = F.Dropout(F.ones_like(like), {.p = rate});
    kept.keep(drawn);
    return drawn;
  }

  VariationalDropoutOptions rates_;
  detail::Carried inputs_mask_, states_mask_, outputs_mask_;
};

}  // namespace gluon::rnn
}  // namespace kaon
