// RNNCell, LSTMCell, GRUCell, LSTMPCell: the cells with full weight matrices.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/activation.h"
#include "kaon/gluon/rnn/recurrent_cell.h"

namespace KAON_API kaon {
namespace gluon::rnn {

// Parameters of another cell or layer, to be shared: MXNet's params=. Their names stay.
struct CellParameters {
  Parameter i2h_weight, h2h_weight, i2h_bias, h2h_bias;
  Parameter h2r_weight{};  // of LSTMPCell
};

struct RNNCellOptions {
  nn::ActivationName activation = ActivationType::tanh;
  init::Initializer i2h_weight_initializer{};  // unset: the one given to initialize()
  init::Initializer h2h_weight_initializer{};
  init::Initializer i2h_bias_initializer = init::Zero();
  init::Initializer h2h_bias_initializer = init::Zero();
  int64_t input_size = 0;  // 0: from the first input
};
struct LSTMCellOptions {
  nn::ActivationName activation = ActivationType::tanh;
  nn::ActivationName recurrent_activation = ActivationType::sigmoid;  // of the gates
  init::Initializer i2h_weight_initializer{};
  init::Initializer h2h_weight_initializer{};
  init::Initializer i2h_bias_initializer = init::Zero();
  init::Initializer h2h_bias_initializer = init::Zero();
  int64_t input_size = 0;
};
struct GRUCellOptions {
  init::Initializer i2h_weight_initializer{};
  init::Initializer h2h_weight_initializer{};
  init::Initializer i2h_bias_initializer = init::Zero();
  init::Initializer h2h_bias_initializer = init::Zero();
  int64_t input_size = 0;
};
struct LSTMPCellOptions {
  init::Initializer i2h_weight_initializer{};
  init::Initializer h2h_weight_initializer{};
  init::Initializer h2r_weight_initializer{};
  init::Initializer i2h_bias_initializer = init::Zero();
  init::Initializer h2h_bias_initializer = init::Zero();
  int64_t input_size = 0;
};
static_assert(std::is_trivially_destructible_v<RNNCellOptions> && std::is_trivially_destructible_v<LSTMCellOptions>);

namespace detail {

// The products of a cell with `gates` gates: rows of i2h_weight (gates * hidden, input) and h2h_weight (gates * hidden,
// state).
template <class Derived>
class GatedCell : public RecurrentCell<Derived> {
 public:
  Parameter i2h_weight, h2h_weight, i2h_bias, h2h_bias;

 protected:
  explicit GatedCell(std::string_view hint) : RecurrentCell<Derived>(hint) {}
  // Makes the parameters, or shares those of `shared`. Throws ValueError for sizes, ShapeError for shared ones.
  template <class Options>
  void make_parameters(int64_t hidden_size, int gates, const Options& options, const CellParameters* shared,
                       int64_t state_size = 0);
  auto i2h(auto F, const auto& x) const {
    return F.FullyConnected(x, F(i2h_weight), F(i2h_bias), {.num_hidden = rows_});
  }
  auto h2h(auto F, const auto& h) const {
    return F.FullyConnected(h, F(h2h_weight), F(h2h_bias), {.num_hidden = rows_});
  }
  // c' and s(o) tanh(c') of an LSTM
  auto lstm_state(auto F, const auto& x, const auto& h, const auto& c, ActivationType inner,
                  ActivationType gate) const {
    auto gates = F.split(i2h(F, x) + h2h(F, h), 4);
    auto in = F.Activation(gates[0], {.act_type = gate}), forget = F.Activation(gates[1], {.act_type = gate});
    auto transform = F.Activation(gates[2], {.act_type = inner}), out = F.Activation(gates[3], {.act_type = gate});
    auto next_c = forget * c + in * transform;
    auto next_h = out * F.Activation(next_c, {.act_type = inner});
    return std::pair(next_h, next_c);
  }

  int64_t hidden_size_ = 0;

 private:
  int rows_ = 0;
};

}  // namespace detail

// h' = f(W x + b + U h + b') for x (batch, input), W i2h_weight (hidden, input), U h2h_weight (hidden, hidden), f a
// named activation (Elman 1990). The output is h'. Throws ValueError for sizes that are not positive.
struct RNNCell : detail::GatedCell<RNNCell> {
  explicit RNNCell(int64_t hidden_size, const RNNCellOptions& options = {});
  RNNCell(int64_t hidden_size, const RNNCellOptions& options, const CellParameters& shared);
  std::vector<StateInfo> state_info(int64_t batch_size = 0) const;  // h
  auto hybrid_forward(auto F, auto x, const auto& states) {
    expect_states(1, states.size());
    auto h = F.Activation(i2h(F, x) + h2h(F, states[0]), {.act_type = activation_});
    return std::pair(h, std::vector{h});
  }

 private:
  RNNCell(int64_t hidden_size, const RNNCellOptions& options, const CellParameters* shared);
  ActivationType activation_;
};

// (i, f, g, o) = W x + b + U h + b';  c' = s(f) c + s(i) f(g);  h' = s(o) f(c'), with s the recurrent activation
// (Hochreiter and Schmidhuber 1997, with forget gates). W (4 hidden, input), U (4 hidden, hidden); the output is h'.
struct LSTMCell : detail::GatedCell<LSTMCell> {
  explicit LSTMCell(int64_t hidden_size, const LSTMCellOptions& options = {});
  LSTMCell(int64_t hidden_size, const LSTMCellOptions& options, const CellParameters& shared);
  std::vector<StateInfo> state_info(int64_t batch_size = 0) const;  // h and c
  auto hybrid_forward(auto F, auto x, const auto& states) {
    expect_states(2, states.size());
    auto [h, c] = lstm_state(F, x, states[0], states[1], activation_, recurrent_activation_);
    return std::pair(h, std::vector{h, c});
  }

 private:
  LSTMCell(int64_t hidden_size, const LSTMCellOptions& options, const CellParameters* shared);
  ActivationType activation_, recurrent_activation_;
};

// r = s(W_r x + b_r + U_r h + b'_r), z likewise;  n = tanh(W_n x + b_n + r (U_n h + b'_n));  h' = (1 - z) n + z h:
// cuDNN's form of Cho et al. 2014. W (3 hidden, input) and U (3 hidden, hidden) with the rows r, z, n; the output is
// h'.
struct GRUCell : detail::GatedCell<GRUCell> {
  explicit GRUCell(int64_t hidden_size, const GRUCellOptions& options = {});
  GRUCell(int64_t hidden_size, const GRUCellOptions& options, const CellParameters& shared);
  std::vector<StateInfo> state_info(int64_t batch_size = 0) const;  // h
  auto hybrid_forward(auto F, auto x, const auto& states) {
    expect_states(1, states.size());
    auto from_x = F.split(i2h(F, x), 3), from_h = F.split(h2h(F, states[0]), 3);
    auto r = F.sigmoid(from_x[0] + from_h[0]), z = F.sigmoid(from_x[1] + from_h[1]);
    auto n = F.tanh(from_x[2] + r * from_h[2]);
    auto h = (1 - z) * n + z * states[0];
    return std::pair(h, std::vector{h});
  }

 private:
  GRUCell(int64_t hidden_size, const GRUCellOptions& options, const CellParameters* shared);
};

// An LSTMCell whose result is projected (Sak et al. 2014): h' = V s(o) tanh(c') with V h2r_weight (projection, hidden),
// and U (4 hidden, projection). The output is h' (batch, projection).
struct LSTMPCell : detail::GatedCell<LSTMPCell> {
  LSTMPCell(int64_t hidden_size, int64_t projection_size, const LSTMPCellOptions& options = {});
  LSTMPCell(int64_t hidden_size, int64_t projection_size, const LSTMPCellOptions& options,
            const CellParameters& shared);
  std::vector<StateInfo> state_info(int64_t batch_size = 0) const;  // h (batch, projection) and c (batch, hidden)
  auto hybrid_forward(auto F, auto x, const auto& states) {
    expect_states(2, states.size());
    auto [hidden, c] = lstm_state(F, x, states[0], states[1], ActivationType::tanh, ActivationType::sigmoid);
    auto h = F.FullyConnected(hidden, F(h2r_weight), {.num_hidden = int(projection_size_)});
    return std::pair(h, std::vector{h, c});
  }

  Parameter h2r_weight;

 private:
  LSTMPCell(int64_t hidden_size, int64_t projection_size, const LSTMPCellOptions& options,
            const CellParameters* shared);
  int64_t projection_size_;
};

}  // namespace gluon::rnn
}  // namespace kaon
