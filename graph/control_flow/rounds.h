// The iterations of a loop, from the last to the first, by the gradients that arrive at them.
#pragma once

#include <algorithm>

#include "kaon/engine/run_context.h"
#include "kaon/graph/control_flow/control_flow_program.h"

namespace kaon::graph {

using Arrivals = std::vector<Arrives>;

// A value that each iteration computes from that of the one before; from some iteration on the values repeat, with a
// period above 1 where states change places.
template <class T>
struct Sequence {
  std::vector<T> values;
  size_t repeat_from = 0;
  size_t index(int64_t k) const {
    const size_t i = size_t(k);
    return i < values.size() ? i : repeat_from + (i - repeat_from) % (values.size() - repeat_from);
  }
};

// At most `most` values. next(value) is called once for each.
template <class T, class Next>
Sequence<T> sequence_of(T value, int64_t most, Next&& next) {
  Sequence<T> all;
  while (int64_t(all.values.size()) < most) {
    all.values.push_back(value);
    value = next(all.values.back());
    // The first one is no repetition: in round 0 of a backward there are no sums yet.
    const auto seen = std::find(all.values.begin() + 1, all.values.end(), value);
    if (seen == all.values.end()) continue;
    all.repeat_from = size_t(seen - all.values.begin());
    break;
  }
  return all;
}

// Which gradients arrive at the results of an iteration, by round: round 0 is the last iteration, round 1 the one
// before it. At an output the same arrives in each round; at a state, what the round before has computed for it.
// visit(heads) returns what arrives at the inputs of the body where those heads arrive.
Sequence<Arrivals> find_rounds(const ControlFlow& program, const Arrivals& first, int64_t most,
                               FunctionRef<Arrivals(const Arrivals&)> visit);

// How many iterations there may be; of a foreach how many there are. `first`: the shape of the node's first input.
int64_t most_iterations(const ControlFlow& program, const Shape& first);

// By input of a graph: does its gradient take part? Those that are wanted, and of a loop those of all states.
// `metas`: of the graph's inputs.
std::vector<bool> wanted_values(const ControlFlow& program, std::vector<bool> wanted,
                                std::span<const TensorMeta> metas);

// GradientForm::own for a graph, from that of the node: what an iteration computes may go into any state.
std::vector<bool> own_values(const ControlFlow& program, std::vector<bool> own);

// By input of a graph whose gradient takes part: is what it computes added to what later iterations have? Empty:
// nowhere.
std::vector<bool> sums_of(const ControlFlow& program, const std::vector<bool>& wanted, bool adds);

}  // namespace kaon::graph
