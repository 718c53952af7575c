#include "kaon/gluon/rnn/modifier_cell.h"

#include <fmt/format.h>

#include "kaon/gluon/internal/block_node.h"

namespace kaon::gluon::rnn {
namespace {

const AnyCell& stepping(const char* cell, const AnyCell& base) {
  if (base.can_step()) return base;
  throw ValueError(
      fmt::format("[{}] the base cell must make single steps, which a BidirectionalCell does not, got {}: put the {} "
                  "around the cells inside of it",
                  cell, base.name(), cell));
}

}  // namespace

// --- DropoutCell

DropoutCell::DropoutCell(double rate, const DropoutCellOptions& options)
    : RecurrentCell("dropout"), rate_(detail::check_rate("DropoutCell", "rate", rate)), axes_(options.axes) {}

template <class A>
detail::Unrolled<A> DropoutCell::unroll_sequence(const detail::UnrollCall<A>& call) const {
  detail::UnrollCall<A> own = call;
  own.valid_length.reset();  // elements after the end stay as they are
  own.inputs = detail::finish(own,
                              own.inputs.is_merged ? detail::Sequence<A>(detail::merged(*this, call))
                                                   : detail::Sequence<A>(detail::steps_of(*this, call)),
                              false);
  if (!own.inputs.is_merged) return RecurrentCell::unroll_sequence(own);
  auto [y, states] = (*this)(own.inputs.arrays[0], detail::first_states(*this, {}, own));
  return {detail::Sequence<A>(y), states};
}

// --- ZoneoutCell

ZoneoutCell::ZoneoutCell(const AnyCell& base, const ZoneoutOptions& o)
    : ModifierCell("zoneout", stepping("ZoneoutCell", base)),
      outputs_(detail::check_rate("ZoneoutCell", "zoneout_outputs", o.zoneout_outputs)),
      states_(detail::check_rate("ZoneoutCell", "zoneout_states", o.zoneout_states)) {
  node_->runs_itself = outputs_ > 0;
}

// --- ResidualCell

ResidualCell::ResidualCell(const AnyCell& base) : ModifierCell("residual", base) {}

template <class A>
detail::Unrolled<A> ResidualCell::unroll_sequence(const detail::UnrollCall<A>& call) const {
  detail::Unrolled<A> all = base_cell.unroll_sequence(call);
  detail::UnrollCall<A> same = call;
  same.merge_outputs = all.outputs.is_merged;
  const std::vector<A> inputs = detail::finish(same, call.inputs, true).arrays;
  for (size_t i = 0; i < inputs.size(); ++i) all.outputs.arrays[i] = all.outputs.arrays[i] + inputs[i];
  return all;
}

// --- VariationalDropoutCell

VariationalDropoutCell::VariationalDropoutCell(const AnyCell& base, const VariationalDropoutOptions& o)
    : ModifierCell("vardrop", o.drop_states > 0 ? stepping("VariationalDropoutCell", base) : base), rates_(o) {
  detail::check_rate("VariationalDropoutCell", "drop_inputs", o.drop_inputs);
  detail::check_rate("VariationalDropoutCell", "drop_states", o.drop_states);
  detail::check_rate("VariationalDropoutCell", "drop_outputs", o.drop_outputs);
  node_->runs_itself = true;
}

void VariationalDropoutCell::reset() const {
  base_cell.reset();
  inputs_mask_.reset();
  states_mask_.reset();
  outputs_mask_.reset();
}

template <class A>
detail::Unrolled<A> VariationalDropoutCell::unroll_sequence(const detail::UnrollCall<A>& call) const {
  if (rates_.drop_states > 0) return RecurrentCell::unroll_sequence(call);
  reset();
  const Functions<A> F;
  const Shape axes(time_axis(call.layout));
  detail::UnrollCall<A> own = call;
  A x = detail::merged(*this, call);
  if (rates_.drop_inputs > 0) x = F.Dropout(x, {.p = rates_.drop_inputs, .axes = axes});
  own.inputs = detail::Sequence<A>(x);
  own.merge_outputs = true;
  detail::Unrolled<A> all = base_cell.unroll_sequence(std::move(own));
  if (rates_.drop_outputs > 0) {
    all.outputs.arrays[0] = F.Dropout(all.outputs.arrays[0], {.p = rates_.drop_outputs, .axes = axes});
  }
  all.outputs = detail::finish(call, std::move(all.outputs), true);
  return all;
}

#define KAON_UNROLL(A)                                                                            \
  template detail::Unrolled<A> DropoutCell::unroll_sequence(const detail::UnrollCall<A>&) const;  \
  template detail::Unrolled<A> ResidualCell::unroll_sequence(const detail::UnrollCall<A>&) const; \
  template detail::Unrolled<A> VariationalDropoutCell::unroll_sequence(const detail::UnrollCall<A>&) const
KAON_UNROLL(NDArray);
KAON_UNROLL(Symbol);
#undef KAON_UNROLL

}  // namespace kaon::gluon::rnn
