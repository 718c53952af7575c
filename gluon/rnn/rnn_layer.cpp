#include "kaon/gluon/rnn/rnn_layer.h"

#include <fmt/format.h>

#include <limits>

#include "kaon/gluon/rnn/modifier_cell.h"
#include "kaon/gluon/rnn/rnn_cell.h"

namespace kaon::gluon::rnn {
namespace detail {
namespace {

void check_sizes(const char* layer, int64_t hidden_size, int num_layers, int64_t input_size, double dropout) {
  if (hidden_size < 1 || hidden_size > std::numeric_limits<int>::max() / 4) {
    throw ValueError(fmt::format("[{}] hidden_size must be at least 1, got {}", layer, hidden_size));
  }
  if (num_layers < 1) throw ValueError(fmt::format("[{}] num_layers must be at least 1, got {}", layer, num_layers));
  if (input_size < 0) throw ValueError(fmt::format("[{}] input_size must be at least 0, got {}", layer, input_size));
  check_rate(layer, "dropout", dropout);
}

template <class Options>
LayerOptions common(const char* layer, RnnMode mode, int64_t hidden_size, const Options& o) {
  check_sizes(layer, hidden_size, o.num_layers, o.input_size, o.dropout);
  return {.op = {.state_size = hidden_size,
                 .num_layers = o.num_layers,
                 .bidirectional = o.bidirectional,
                 .mode = mode,
                 .p = o.dropout,
                 .state_outputs = true,
                 .use_sequence_length = o.use_sequence_length},
          .layout = o.layout,
          .input_size = o.input_size,
          .i2h_weight = o.i2h_weight_initializer,
          .h2h_weight = o.h2h_weight_initializer,
          .i2h_bias = o.i2h_bias_initializer,
          .h2h_bias = o.h2h_bias_initializer,
          .h2r_weight = {},
          .dtype = o.dtype};
}

int directions(const op::RNN& op) { return op.bidirectional ? 2 : 1; }
int64_t result_size(const op::RNN& op) { return op.projection_size.value_or(op.state_size); }

// Zeros for x (length, batch, input).
template <class A>
std::vector<A> zero_states(const std::vector<StateInfo>& states, const A& x) {
  std::vector<A> zeros;
  if constexpr (std::same_as<A, NDArray>) {
    for (const StateInfo& s : states) zeros.push_back(nd.zeros(s.shape, {.dtype = x.dtype(), .device = x.device()}));
  } else {  // of the input's batch, whatever that will be
    const Symbol row = sym.zeros_like(sym.slice_axis(sym.slice_axis(x, 0, 0, 1), 2, 0, 1));
    for (const StateInfo& s : states) zeros.push_back(sym.broadcast_axis(row, {0, 2}, {s.shape[0], s.shape[2]}));
  }
  return zeros;
}

std::vector<StateInfo> states_of(const op::RNN& op, int64_t batch_size) {
  const int64_t cells = int64_t(op.num_layers) * directions(op);
  std::vector<StateInfo> all{{{cells, batch_size, result_size(op)}, "LNC"}};
  if (op.mode == RnnMode::lstm) all.push_back({{cells, batch_size, op.state_size}, "LNC"});
  return all;
}

}  // namespace

LayerOptions layer_options(int64_t hidden_size, const RNNOptions& o) {
  const ActivationType f = o.activation.type();
  if (f != ActivationType::relu && f != ActivationType::tanh) {
    throw ValueError(fmt::format("[RNN] activation must be relu or tanh, got {}", o.activation.name()));
  }
  return common("RNN", f == ActivationType::relu ? RnnMode::rnn_relu : RnnMode::rnn_tanh, hidden_size, o);
}

LayerOptions layer_options(int64_t hidden_size, const LSTMOptions& o) {
  if (o.projection_size && *o.projection_size < 1) {
    throw ValueError(fmt::format("[LSTM] projection_size must be at least 1, got {}", *o.projection_size));
  }
  if (o.state_clip_min.has_value() != o.state_clip_max.has_value() ||
      (o.state_clip_min && !(*o.state_clip_min <= *o.state_clip_max))) {
    throw ValueError("[LSTM] state_clip_min and state_clip_max come together, the smaller first");
  }
  LayerOptions all = common("LSTM", RnnMode::lstm, hidden_size, o);
  all.op.projection_size = o.projection_size;
  all.op.lstm_state_clip_min = o.state_clip_min;
  all.op.lstm_state_clip_max = o.state_clip_max;
  all.op.lstm_state_clip_nan = o.state_clip_nan;
  all.h2r_weight = o.h2r_weight_initializer;
  return all;
}

LayerOptions layer_options(int64_t hidden_size, const GRUOptions& o) {
  return common("GRU", RnnMode::gru, hidden_size, o);
}

template <class A>
Step<A> call_layer(const Block& block, const LayerOptions& options, const std::vector<Parameter>& weights,
                   const std::vector<Parameter>& biases, const A& inputs, const std::vector<A>& given,
                   const A* sequence_length) {
  const Functions<A> F;
  const op::RNN& op = options.op;
  if (op.use_sequence_length != (sequence_length != nullptr)) {
    throw ValueError(fmt::format("[{}] {}", block.name(),
                                 op.use_sequence_length
                                     ? "use_sequence_length: call it with data, states and sequence_length"
                                     : "sequence_length is given, but use_sequence_length is not set"));
  }
  check_layer_input(block, options.layout, inputs);
  const bool batch_first = options.layout == Layout::NTC;
  const A x = batch_first ? F.swapaxes(inputs, 0, 1) : inputs;

  std::vector<A> flat;
  for (const Parameter& p : weights) {
    const A w = p.as<A>();
    if constexpr (std::same_as<A, Symbol>) {
      // Only a product says how wide its weight is: a trace that completes parameters makes one, which nothing uses.
      const Shape& s = p.shape();
      if (s[1] == 0) F.as("input_size").FullyConnected(x, w, {.num_hidden = int(s[0]), .flatten = false});
    }
    flat.push_back(w.reshape({-1}));  // a view where nothing is recorded
  }
  for (const Parameter& p : biases) flat.push_back(p.as<A>());
  const A parameters = F._rnn_param_concat(flat, {.dim = 0});

  int64_t batch = 0;
  if constexpr (std::same_as<A, NDArray>) batch = x.shape()[1];
  const std::vector<StateInfo> infos = states_of(op, batch);
  const std::vector<A> states = given.empty() ? zero_states(infos, x) : given;
  check_state_count(block, infos.size(), states.size());
  const bool has_cell = op.mode == RnnMode::lstm;
  const auto all = [&] {
    if (has_cell && sequence_length) return F.RNN_states(x, parameters, states[0], states[1], *sequence_length, op);
    if (has_cell) return F.RNN_states(x, parameters, states[0], states[1], op);
    if (sequence_length) return F.RNN_states(x, parameters, states[0], *sequence_length, op);
    return F.RNN_states(x, parameters, states[0], op);
  }();
  const A y = batch_first ? F.swapaxes(all[0], 0, 1) : all[0];
  return {y, {all.begin() + 1, all.end()}};
}

template Step<NDArray> call_layer(const Block&, const LayerOptions&, const std::vector<Parameter>&,
                                  const std::vector<Parameter>&, const NDArray&, const std::vector<NDArray>&,
                                  const NDArray*);
template Step<Symbol> call_layer(const Block&, const LayerOptions&, const std::vector<Parameter>&,
                                 const std::vector<Parameter>&, const Symbol&, const std::vector<Symbol>&,
                                 const Symbol*);

template <class Derived>
RecurrentLayer<Derived>::RecurrentLayer(std::string_view hint, const LayerOptions& o)
    : HybridBlock<Derived>(hint), options_(o) {
  const int64_t rows = ops::gates_of(o.op.mode) * o.op.state_size, state = result_size(o.op);
  int64_t width = o.input_size;
  for (int layer = 0; layer < o.op.num_layers; ++layer) {
    for (int direction = 0; direction < directions(o.op); ++direction) {
      const auto make = [&](const char* name, const Shape& shape, const init::Initializer& init) {
        // In MXNet's files a layer has the names of the cells that it was once made of.
        const std::string cell = !o.op.bidirectional ? "" : direction == 0 ? "l_cell." : "r_cell.";
        return this->param(fmt::format("{}{}_{}", direction == 0 ? 'l' : 'r', layer, name), shape,
                           {.dtype = o.dtype, .init = init}, fmt::format("_unfused.{}.{}{}", layer, cell, name));
      };
      weights_.push_back(make("i2h_weight", {rows, width}, o.i2h_weight));
      weights_.push_back(make("h2h_weight", {rows, state}, o.h2h_weight));
      biases_.push_back(make("i2h_bias", {rows}, o.i2h_bias));
      biases_.push_back(make("h2h_bias", {rows}, o.h2h_bias));
      if (o.op.projection_size) weights_.push_back(make("h2r_weight", {state, o.op.state_size}, o.h2r_weight));
    }
    width = state * directions(o.op);
  }
}

template <class Derived>
std::vector<StateInfo> RecurrentLayer<Derived>::state_info(int64_t batch_size) const {
  return states_of(options_.op, batch_size);
}

template <class Derived>
HybridSequentialRNNCell RecurrentLayer<Derived>::unfuse() const {
  const op::RNN& op = options_.op;
  if (op.lstm_state_clip_min) {
    throw ValueError(fmt::format("[{}] unfuse: cells do not bound their state, state_clip_min is set", this->name()));
  }
  size_t next_weight = 0, next_bias = 0;
  const auto next_cell = [&]() -> AnyCell {
    CellParameters shared{weights_[next_weight], weights_[next_weight + 1], biases_[next_bias], biases_[next_bias + 1]};
    next_weight += 2, next_bias += 2;
    if (op.projection_size) {
      shared.h2r_weight = weights_[next_weight++];
      return LSTMPCell(op.state_size, *op.projection_size, {}, shared);
    }
    if (op.mode == RnnMode::lstm) return LSTMCell(op.state_size, {}, shared);
    if (op.mode == RnnMode::gru) return GRUCell(op.state_size, {}, shared);
    const ActivationType f = op.mode == RnnMode::rnn_relu ? ActivationType::relu : ActivationType::tanh;
    return RNNCell(op.state_size, {.activation = f}, shared);
  };
  HybridSequentialRNNCell stack;
  for (int layer = 0; layer < op.num_layers; ++layer) {
    const AnyCell cell = next_cell();
    if (op.bidirectional) {
      stack.add(BidirectionalCell(cell, next_cell()));
    } else {
      stack.add(cell);
    }
    if (op.p > 0 && layer + 1 < op.num_layers) stack.add(DropoutCell(op.p));
  }
  return stack;
}

template class RecurrentLayer<RNN>;
template class RecurrentLayer<LSTM>;
template class RecurrentLayer<GRU>;

}  // namespace detail

RNN::RNN(int64_t hidden_size, const RNNOptions& options)
    : RecurrentLayer("rnn", detail::layer_options(hidden_size, options)) {}
LSTM::LSTM(int64_t hidden_size, const LSTMOptions& options)
    : RecurrentLayer("lstm", detail::layer_options(hidden_size, options)) {}
GRU::GRU(int64_t hidden_size, const GRUOptions& options)
    : RecurrentLayer("gru", detail::layer_options(hidden_size, options)) {}

}  // namespace kaon::gluon::rnn
