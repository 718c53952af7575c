// dynamic_unroll: a cell along a sequence of any length, as a loop.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/rnn/recurrent_cell.h"
#include "kaon/graph/control_flow.h"

namespace KAON_API kaon {
namespace gluon::rnn {

struct DynamicUnrollOptions {
  double drop_inputs = 0;  // dropout with one draw for all steps
  double drop_outputs = 0;
  Layout layout = Layout::TNC;  // the faster one
};
static_assert(std::is_trivially_destructible_v<DynamicUnrollOptions>);

// As cell.unroll(length, inputs, begin_state, layout, valid_length) for whatever length the inputs have, by
// contrib::foreach: in a trace the loop is one node, which is traced once and runs as often as there are steps. Throws
// as unroll() and foreach do, in a trace TraceError for a cell that keeps arrays between steps.
template <class C, detail::Array A>
detail::Step<A> dynamic_unroll(const C& cell, const A& inputs, const std::vector<std::type_identity_t<A>>& begin_state,
                               const DynamicUnrollOptions& options = {},
                               const std::optional<std::type_identity_t<A>>& valid_length = {}) {
  using List = std::vector<A>;
  const Functions<A> F;
  const bool batch_first = options.layout == Layout::NTC;
  detail::check_state_count(cell, cell.state_info().size(), begin_state.size());
  cell.reset();
  const auto drop = [&](const A& x, double rate) { return rate > 0 ? F.Dropout(x, {.p = rate, .axes = Shape(0)}) : x; };
  const A x = drop(batch_first ? F.swapaxes(inputs, 0, 1) : inputs, options.drop_inputs);
  detail::Step<A> all;
  if (valid_length) {
    const A ends = F.cast(*valid_length, DType::float32);
    List first = begin_state;
    first.push_back(F.zeros_like(ends));  // counts steps, on the device of the lengths
    all = contrib::foreach (
        [&](const A& row, const List& now) {
          auto [y, next] = cell(row, List(now.begin(), now.end() - 1));
          const A goes_on = F.broadcast_greater(ends, now.back());
          for (size_t i = 0; i < next.size(); ++i) next[i] = F.where(goes_on, next[i], now[i]);
          next.push_back(now.back() + 1);
          return detail::Step<A>(y, next);
        },
        x, first);
    all.second.pop_back();
  } else {
    all = contrib::foreach ([&](const A& row, const List& now) { return detail::Step<A>(cell(row, now)); }, x,
                            begin_state);
  }
  all.first = drop(all.first, options.drop_outputs);
  if (valid_length) all.first = F.SequenceMask(all.first, *valid_length);
  if (batch_first) all.first = F.swapaxes(all.first, 0, 1);
  return all;
}

}  // namespace gluon::rnn
}  // namespace kaon
