#include "kaon/gluon/rnn/rnn_cell.h"

#include <fmt/format.h>

#include <limits>

namespace kaon::gluon::rnn {
namespace detail {
namespace {

void check_size(const Block& cell, const char* what, int64_t size, int64_t least, int gates) {
  if (size >= least && size <= std::numeric_limits<int>::max() / gates) return;
  throw ValueError(fmt::format("[{}] {} must be at least {}, got {}", cell.name(), what, least, size));
}

const Parameter& checked(const Block& cell, const char* name, const Parameter& p, const Shape& expected) {
  bool fits = p.defined() && p.shape().ndim() == expected.ndim();
  for (int i = 0; fits && i < expected.ndim(); ++i) {
    fits = p.shape()[i] == expected[i] || p.shape()[i] == 0 || expected[i] == 0;
  }
  if (fits) return p;
  throw ShapeError(fmt::format("[{}] the shared {} must have shape {}, got {}", cell.name(), name, expected.str(),
                               p.defined() ? p.shape().str() : "none"));
}

}  // namespace

template <class Derived>
template <class Options>
void GatedCell<Derived>::make_parameters(int64_t hidden_size, int gates, const Options& o, const CellParameters* shared,
                                         int64_t state_size) {
  check_size(*this, "hidden_size", hidden_size, 1, gates);
  check_size(*this, "input_size", o.input_size, 0, 1);
  hidden_size_ = hidden_size;
  rows_ = int(gates * hidden_size);
  const auto make = [&](const char* name, const Parameter CellParameters::*member, const Shape& shape,
                        const init::Initializer& init) {
    if (!shared) return this->param(name, shape, {.init = init});
    const Parameter p = checked(*this, name, shared->*member, shape);
    this->share_param(name, p);
    return p;
  };
  if (state_size == 0) state_size = hidden_size;
  i2h_weight = make("i2h_weight", &CellParameters::i2h_weight, {rows_, o.input_size}, o.i2h_weight_initializer);
  h2h_weight = make("h2h_weight", &CellParameters::h2h_weight, {rows_, state_size}, o.h2h_weight_initializer);
  i2h_bias = make("i2h_bias", &CellParameters::i2h_bias, {rows_}, o.i2h_bias_initializer);
  h2h_bias = make("h2h_bias", &CellParameters::h2h_bias, {rows_}, o.h2h_bias_initializer);
}

}  // namespace detail

// --- RNNCell

RNNCell::RNNCell(int64_t hidden_size, const RNNCellOptions& options, const CellParameters* shared)
    : GatedCell("rnn"), activation_(options.activation.type()) {
  make_parameters(hidden_size, 1, options, shared);
}
RNNCell::RNNCell(int64_t hidden_size, const RNNCellOptions& options) : RNNCell(hidden_size, options, nullptr) {}
RNNCell::RNNCell(int64_t hidden_size, const RNNCellOptions& options, const CellParameters& shared)
    : RNNCell(hidden_size, options, &shared) {}

std::vector<StateInfo> RNNCell::state_info(int64_t batch_size) const { return {{{batch_size, hidden_size_}, "NC"}}; }

// --- LSTMCell

LSTMCell::LSTMCell(int64_t hidden_size, const LSTMCellOptions& options, const CellParameters* shared)
    : GatedCell("lstm"),
      activation_(options.activation.type()),
      recurrent_activation_(options.recurrent_activation.type()) {
  make_parameters(hidden_size, 4, options, shared);
}
LSTMCell::LSTMCell(int64_t hidden_size, const LSTMCellOptions& options) : LSTMCell(hidden_size, options, nullptr) {}
LSTMCell::LSTMCell(int64_t hidden_size, const LSTMCellOptions& options, const CellParameters& shared)
    : LSTMCell(hidden_size, options, &shared) {}

std::vector<StateInfo> LSTMCell::state_info(int64_t batch_size) const {
  return {{{batch_size, hidden_size_}, "NC"}, {{batch_size, hidden_size_}, "NC"}};
}

// --- GRUCell

GRUCell::GRUCell(int64_t hidden_size, const GRUCellOptions& options, const CellParameters* shared) : GatedCell("gru") {
  make_parameters(hidden_size, 3, options, shared);
}
GRUCell::GRUCell(int64_t hidden_size, const GRUCellOptions& options) : GRUCell(hidden_size, options, nullptr) {}
GRUCell::GRUCell(int64_t hidden_size, const GRUCellOptions& options, const CellParameters& shared)
    : GRUCell(hidden_size, options, &shared) {}

std::vector<StateInfo> GRUCell::state_info(int64_t batch_size) const { return {{{batch_size, hidden_size_}, "NC"}}; }

// --- LSTMPCell

LSTMPCell::LSTMPCell(int64_t hidden_size, int64_t projection_size, const LSTMPCellOptions& options,
                     const CellParameters* shared)
    : GatedCell("lstmp"), projection_size_(projection_size) {
  detail::check_size(*this, "projection_size", projection_size, 1, 1);
  make_parameters(hidden_size, 4, options, shared, projection_size);
  const Shape shape(projection_size, hidden_size);
  if (shared) {
    h2r_weight = detail::checked(*this, "h2r_weight", shared->h2r_weight, shape);
    share_param("h2r_weight", h2r_weight);
  } else {
    h2r_weight = param("h2r_weight", shape, {.init = options.h2r_weight_initializer});
  }
}
LSTMPCell::LSTMPCell(int64_t hidden_size, int64_t projection_size, const LSTMPCellOptions& options)
    : LSTMPCell(hidden_size, projection_size, options, nullptr) {}
LSTMPCell::LSTMPCell(int64_t hidden_size, int64_t projection_size, const LSTMPCellOptions& options,
                     const CellParameters& shared)
    : LSTMPCell(hidden_size, projection_size, options, &shared) {}

std::vector<StateInfo> LSTMPCell::state_info(int64_t batch_size) const {
  return {{{batch_size, projection_size_}, "NC"}, {{batch_size, hidden_size_}, "NC"}};
}

}  // namespace kaon::gluon::rnn
