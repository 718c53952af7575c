#include "kaon/ops/nn/rnn/rnn.h"

#include <fmt/format.h>

#include <vector>

#include "kaon/ops/functions.h"
#include "kaon/ops/nn/rnn/kernels/rnn_sizes.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

op::RnnParameters parameters_of(const op::RNN& op, const Shape& data) {
  return {.mode = op.mode,
          .input_size = data[2],
          .state_size = op.state_size,
          .num_layers = op.num_layers,
          .bidirectional = op.bidirectional,
          .projection_size = op.projection_size.value_or(0)};
}

// The states (cells, N, size) of each cell.
std::vector<NDArray> states_of(const NDArray& states) {
  const Shape& s = states.shape();
  if (s[0] == 1) return {nd._reshape_to(states, {.shape = {s[1], s[2]}})};
  return nd.split(states, int(s[0]), {.axis = 0, .squeeze_axis = true});
}

// One layer and direction.
struct Cell {
  const op::RNN& op;
  std::span<const NDArray> weights;  // W, U, and V if projected
  const NDArray &bias, &recurrent_bias;

  std::vector<NDArray> scan(const NDArray& x, const NDArray& state, bool reverse, const NDArray* length) const {
    const bool is_gru = op.mode == RnnMode::gru;
    const NDArray gates = nd.FullyConnected(x, weights[0], is_gru ? bias : bias + recurrent_bias,
                                            {.num_hidden = int(weights[0].shape()[0]), .flatten = false});
    std::vector<const NDArray*> arrays{&gates, &weights[1], &state};
    if (is_gru) arrays.push_back(&recurrent_bias);
    if (weights.size() > 2) arrays.push_back(&weights[2]);
    if (length) arrays.push_back(length);
    return nd._rnn_scan(arrays, {.mode = op.mode,
                                 .reverse = reverse,
                                 .projected = weights.size() > 2,
                                 .use_sequence_length = length != nullptr,
                                 .clip_min = op.lstm_state_clip_min,
                                 .clip_max = op.lstm_state_clip_max,
                                 .clip_nan = op.lstm_state_clip_nan});
  }
};

}  // namespace

// --- RNN

constinit const OpDef op::RNN::def = make_op_def<op::RNN>();

void op::RNN::infer(InferContext& c) const {
  if (state_size < 1) c.fail_value(fmt::format("state_size must be at least 1, got {}", state_size));
  if (num_layers < 1) c.fail_value(fmt::format("num_layers must be at least 1, got {}", num_layers));
  if (!(p >= 0 && p <= 1)) c.fail_value(fmt::format("p must lie in [0, 1], got {}", to_text(p)));
  if (projection_size && (mode != RnnMode::lstm || *projection_size < 1)) {
    c.fail_value(fmt::format("projection_size must be positive and is for mode lstm, got {}", *projection_size));
  }
  if (lstm_state_clip_min.has_value() != lstm_state_clip_max.has_value()) {
    c.fail_value("lstm_state_clip_min and lstm_state_clip_max come together");
  }
  if (lstm_state_clip_min && (mode != RnnMode::lstm || !(*lstm_state_clip_min <= *lstm_state_clip_max))) {
    c.fail_value(fmt::format("lstm_state_clip_min must not exceed lstm_state_clip_max and is for mode lstm, got {}, {}",
                             to_text(*lstm_state_clip_min), to_text(*lstm_state_clip_max)));
  }
  c.expect_floating();
  const int arrays = num_inputs() - int(use_sequence_length);
  for (int i = 1; i < arrays; ++i) {
    if (c.dtype(i) != c.dtype()) {
      c.fail_dtype(fmt::format("inputs must have one dtype, got {} and {}", name_of(c.dtype()), name_of(c.dtype(i))));
    }
  }
  c.expect_ndim(0, 3);
  const Shape data = c.shape(0);
  const RnnParameters all = parameters_of(*this, data);
  c.expect_shape(1, Shape(all.size()));
  const Shape state(all.cells(), data[1], all.result_size()), cell(all.cells(), data[1], state_size);
  c.expect_shape(2, state);
  if (mode == RnnMode::lstm) c.expect_shape(3, cell);
  if (use_sequence_length) {
    c.expect_shape(arrays, Shape(data[1]));
    if (c.dtype(arrays) == DType::boolean) c.fail_dtype("sequence_length must be numbers, got bool");
  }
  c.set_output(0, {data[0], data[1], all.result_size() * all.directions()}, c.dtype());
  if (state_outputs) c.set_output(1, state, c.dtype());
  if (num_outputs() > 2) c.set_output(2, cell, c.dtype());
}

void op::RNN::compose(ComposeContext& c) const {
  const bool has_cell = mode == RnnMode::lstm;
  const RnnParameters all = parameters_of(*this, c.input().shape());
  const std::vector<NDArray> arrays = nd._rnn_parameters(c.input(1), all);
  const NDArray* const length = use_sequence_length ? &c.input(num_inputs() - 1) : nullptr;
  std::vector<NDArray> states = states_of(c.input(2)), last;
  if (has_cell) {
    const std::vector<NDArray> cells = states_of(c.input(3));
    for (size_t i = 0; i < cells.size(); ++i) states[i] = nd.concat({.dim = 1}, states[i], cells[i]);
  }
  const size_t weights = size_t(all.weights_of_cell()), biases = weights * size_t(all.cells());
  NDArray x = c.input(0);
  for (int layer = 0; layer < num_layers; ++layer) {
    if (layer > 0 && p > 0) x = nd.Dropout(x, {.p = p});
    std::vector<NDArray> results;
    for (int direction = 0; direction < all.directions(); ++direction) {
      const size_t i = size_t(layer * all.directions() + direction);
      const Cell cell{*this, std::span(arrays).subspan(i * weights, weights), arrays[biases + 2 * i],
                      arrays[biases + 2 * i + 1]};
      std::vector<NDArray> both = cell.scan(x, states[i], direction == 1, length);
      results.push_back(both[0]), last.push_back(both[1]);
    }
    x = results.size() == 1 ? results[0] : nd.concat(results, {.dim = 2});
  }
  c.set(0, x);
  if (!state_outputs) return;
  const NDArray both = nd.stack(last);
  c.set(1, has_cell ? nd.slice_axis(both, 2, 0, all.result_size()) : both);
  if (has_cell) c.set(2, nd.slice_axis(both, 2, all.result_size(), all.result_size() + state_size));
}

// --- _rnn_param_concat

constinit const OpDef op::RnnParamConcat::def = make_op_def<op::RnnParamConcat>();

void op::RnnParamConcat::infer(InferContext& c) const { Concat{.dim = dim, .num_args = num_args}.infer(c); }

void op::RnnParamConcat::compose(ComposeContext& c) const {
  std::vector<NDArray> arrays;
  for (int i = 0; i < c.num_inputs(); ++i) arrays.push_back(c.input(i));
  c.set(nd.concat(arrays, {.dim = dim}));
}

// --- _rnn_parameters

constinit const OpDef op::RnnParameters::def = make_op_def<op::RnnParameters>();

Shape op::RnnParameters::shape_of(int i) const { return parameter_shape(*this, i); }

int64_t op::RnnParameters::size() const {
  int64_t n = 0;
  for (int i = 0; i < num_outputs(); ++i) n += shape_of(i).size();
  return n;
}

void op::RnnParameters::infer(InferContext& c) const {
  c.expect_floating();
  if (num_layers < 1 || state_size < 1 || input_size < 0 || projection_size < 0) {
    c.fail_value("num_layers and state_size must be at least 1, input_size and projection_size at least 0");
  }
  c.expect_shape(0, Shape(size()));
  for (int i = 0; i < num_outputs(); ++i) c.set_output(i, shape_of(i), c.dtype());
}

void op::RnnParameters::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  std::vector<NDArray> heads;
  for (int i = 0; i < num_outputs(); ++i) {
    heads.push_back(nd._reshape_to(g.head(i), {.shape = Shape(shape_of(i).size())}));
  }
  g.set(0, nd.concat(heads, {.dim = 0}));
}

void run_cpu(const op::RnnParameters& op, KernelContext& c) {
  const size_t width = size_of(c.in(0).dtype);
  int64_t first = 0;
  for (int i = 0; i < op.num_outputs(); ++i) {
    const int64_t n = op.shape_of(i).size();
    const char* const from = c.in(0).as<char>() + size_t(first) * width;
    first += n;
    if (!c.out(i).data) continue;
    c.run.parallel_for(n, int64_t(1) << 18, [&](int64_t begin, int64_t end) {
      std::copy(from + size_t(begin) * width, from + size_t(end) * width, c.out(i).as<char>() + size_t(begin) * width);
    });
  }
}

}  // namespace kaon
