// Unrolling cells: sequences as one array and as lists of steps, zeros to begin with, what ends early.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/gluon/internal/block_node.h"
#include "kaon/gluon/rnn/recurrent_cell.h"
#include "kaon/graph/control_flow.h"
#include "kaon/graph/ir/symbol_node.h"

namespace kaon::gluon::rnn::detail {
namespace {

// Of all dimensions, else Shape::unknown(). A trace may ask: what is not so fails in any case.
Shape shape_if_known(const NDArray& x) { return x.shape(); }
Shape shape_if_known(const Symbol& x) {
  const Shape& s = x.entry().node->outputs[x.entry().output].shape;
  return s.is_known() ? s : Shape::unknown();
}

template <class A>
void check(const Block& cell, const UnrollCall<A>& call) {
  if (call.length < 1) {
    throw ValueError(fmt::format("[unroll] {}: length must be at least 1, got {}", cell.name(), call.length));
  }
  const std::vector<A>& arrays = call.inputs.arrays;
  if (!call.inputs.is_merged && int64_t(arrays.size()) != call.length) {
    throw ValueError(fmt::format("[unroll] {}: inputs must be {} arrays, one for each step, got {}", cell.name(),
                                 call.length, arrays.size()));
  }
  if (!call.inputs.is_merged) return;
  const Shape s = shape_if_known(arrays[0]);
  if (s.ndim() >= 0 && (s.ndim() < 3 || s[time_axis(call.layout)] != call.length)) {
    throw ShapeError(fmt::format("[unroll] {}: inputs in layout {} must have {} steps along axis {}, got shape {}",
                                 cell.name(), enum_names(Layout())[size_t(call.layout)], call.length,
                                 time_axis(call.layout), s.str()));
  }
}

template <class A>
A mask(const A& outputs, const UnrollCall<A>& call) {
  return Functions<A>().SequenceMask(outputs, *call.valid_length, {.axis = time_axis(call.layout)});
}

template <class A>
std::vector<A> split(const A& merged, int axis, int64_t length) {
  return Functions<A>().split(merged, int(length), {.axis = axis, .squeeze_axis = true});
}

// Zeros (batch, 1) for one step of the inputs.
Symbol zeros_of_batch(const UnrollCall<Symbol>& call) {
  Symbol x = call.inputs.arrays[0];
  if (call.inputs.is_merged) x = sym.reshape(sym.slice_axis(x, time_axis(call.layout), 0, 1), {-3, -2});
  return sym.zeros_like(sym.slice_axis(sym.flatten(x), 1, 0, 1));
}

}  // namespace

template <class A>
void check_layer_input(const Block& layer, Layout layout, const A& x) {
  const Shape s = shape_if_known(x);
  if (s.ndim() < 0 || s.ndim() == 3) return;
  throw ShapeError(fmt::format("[{}] data must have three axes, {}, got shape {}", layer.name(),
                               enum_names(Layout())[size_t(layout)], s.str()));
}
template void check_layer_input(const Block&, Layout, const NDArray&);
template void check_layer_input(const Block&, Layout, const Symbol&);

void check_state_count(const Block& cell, size_t expected, size_t given) {
  if (given == expected) return;
  throw ValueError(fmt::format("[{}] {} states are expected, got {}", cell.name(), expected, given));
}

std::vector<NDArray> begin_state(const Block& block, const std::vector<StateInfo>& states,
                                 const BeginStateOptions& options) {
  const ParameterDict parameters = block.collect_params();
  const DType own = parameters.size() > 0 ? parameters[0].dtype() : DType::float32;
  std::vector<NDArray> arrays;
  for (const StateInfo& s : states) {
    arrays.push_back(options.init(s.shape, options.dtype.value_or(own), options.device));
  }
  return arrays;
}

double check_rate(const char* cell, const char* what, double rate) {
  if (rate >= 0 && rate < 1) return rate;
  throw ValueError(fmt::format("[{}] {} must lie in [0, 1), got {}", cell, what, rate));
}

template <class A>
std::vector<A> first_states(const Block& cell, const std::vector<StateInfo>& states, const UnrollCall<A>& call) {
  check(cell, call);
  if (!call.begin_state.empty() || states.empty()) {
    check_state_count(cell, states.size(), call.begin_state.size());
    return call.begin_state;
  }
  std::vector<A> zeros;
  if constexpr (std::same_as<A, NDArray>) {
    const NDArray& x = call.inputs.arrays[0];
    const int64_t batch = x.shape()[call.inputs.is_merged ? 1 - time_axis(call.layout) : 0];
    for (const StateInfo& s : states) {
      Shape shape = s.shape;
      shape[0] = batch;
      zeros.push_back(nd.zeros(shape, {.dtype = x.dtype(), .device = x.device()}));
    }
  } else {  // the batch size is that of the inputs, whatever that will be
    const Symbol row = zeros_of_batch(call);
    for (const StateInfo& s : states) {
      Shape shape = s.shape;
      shape[0] = 0;  // reshape's code for the inputs' size
      const Symbol flat = sym.broadcast_axis(row, {1}, {shape.product(1, shape.ndim())});
      zeros.push_back(shape.ndim() == 2 ? flat : sym.reshape(flat, shape));
    }
  }
  return zeros;
}

template <class A>
std::vector<A> steps_of(const Block& cell, const UnrollCall<A>& call) {
  check(cell, call);
  if (!call.inputs.is_merged) return call.inputs.arrays;
  return split(call.inputs.arrays[0], time_axis(call.layout), call.length);
}

template <class A>
A merged(const Block& cell, const UnrollCall<A>& call) {
  check(cell, call);
  if (call.inputs.is_merged) return call.inputs.arrays[0];
  return Functions<A>().stack(call.inputs.arrays, {.axis = time_axis(call.layout)});
}

template <class A>
Sequence<A> finish(const UnrollCall<A>& call, Sequence<A> outputs, bool must_mask) {
  const int axis = time_axis(call.layout);
  must_mask = must_mask && call.valid_length;
  if (!outputs.is_merged && (must_mask || call.merge_outputs.value_or(false))) {
    outputs = Sequence<A>(Functions<A>().stack(outputs.arrays, {.axis = axis}));
  }
  if (must_mask) outputs.arrays[0] = mask(outputs.arrays[0], call);
  if (outputs.is_merged && !call.merge_outputs.value_or(true)) {
    outputs = Sequence<A>(split(outputs.arrays[0], axis, call.length));
  }
  return outputs;
}

template <class A>
std::vector<A> reversed(std::vector<A> steps, const std::optional<A>& valid_length) {
  if (!valid_length) {
    std::reverse(steps.begin(), steps.end());
    return steps;
  }
  const Functions<A> F;
  return split(F.SequenceReverse(F.stack(steps), *valid_length), 0, int64_t(steps.size()));
}

template <class A>
Unrolled<A> unroll_steps(const Block& cell, const std::vector<StateInfo>& infos, const UnrollCall<A>& call,
                         StepFn<A> step) {
  const Functions<A> F;
  const std::vector<A> inputs = steps_of(cell, call);
  std::vector<A> states = first_states(cell, infos, call), outputs;
  std::vector<std::vector<A>> kept(states.size());  // of all steps, from the states before the first on
  auto keep = [&] {
    for (size_t i = 0; call.valid_length && i < kept.size(); ++i) kept[i].push_back(states[i]);
  };
  keep();
  for (const A& x : inputs) {
    Step<A> next = step(x, states);
    outputs.push_back(std::move(next.first));
    states = std::move(next.second);
    keep();
  }
  if (call.valid_length) {
    const A last = *call.valid_length + 1;
    for (size_t i = 0; i < kept.size(); ++i) states[i] = F.SequenceLast(F.stack(kept[i]), last);
  }
  return {finish(call, Sequence<A>(std::move(outputs)), true), std::move(states)};
}

// --- Carried

struct Carried::Values {
  std::optional<NDArray> array;
  std::optional<Symbol> symbol;
  uint64_t trace = 0;  // where it was reset last
};

Carried::Carried() : values_(std::make_shared<Values>()) {}

void Carried::reset() const {
  values_->array.reset();
  values_->symbol.reset();
  values_->trace = gluon::detail::running_trace();
}

template <Array A>
const A* Carried::find(const Block& cell) const {
  if constexpr (std::same_as<A, NDArray>) {
    return values_->array ? &*values_->array : nullptr;
  } else {
    if (contrib::detail::is_tracing_body()) {
      throw TraceError(
          fmt::format("[{}] keeps arrays from one step to the next, which the body of a loop cannot in a "
                      "trace: use unroll()",
                      cell.name()));
    }
    if (values_->trace != gluon::detail::running_trace()) {
      throw TraceError(
          fmt::format("[{}] keeps arrays from one step to the next, so that a plan must hold them all: call "
                      "unroll(), or reset() before the first step, in the block that is hybridized",
                      cell.name()));
    }
    return values_->symbol ? &*values_->symbol : nullptr;
  }
}

template <Array A>
void Carried::keep(const A& value) const {
  if constexpr (std::same_as<A, NDArray>) {
    values_->array = value;
  } else {
    values_->symbol = value;
  }
}

template const NDArray* Carried::find(const Block&) const;
template const Symbol* Carried::find(const Block&) const;
template void Carried::keep(const NDArray&) const;
template void Carried::keep(const Symbol&) const;

#define KAON_UNROLL(A)                                                                                     \
  template std::vector<A> first_states(const Block&, const std::vector<StateInfo>&, const UnrollCall<A>&); \
  template std::vector<A> steps_of(const Block&, const UnrollCall<A>&);                                    \
  template A merged(const Block&, const UnrollCall<A>&);                                                   \
  template Sequence<A> finish(const UnrollCall<A>&, Sequence<A>, bool);                                    \
  template std::vector<A> reversed(std::vector<A>, const std::optional<A>&);                               \
  template Unrolled<A> unroll_steps(const Block&, const std::vector<StateInfo>&, const UnrollCall<A>&, StepFn<A>)
KAON_UNROLL(NDArray);
KAON_UNROLL(Symbol);
#undef KAON_UNROLL

}  // namespace kaon::gluon::rnn::detail
