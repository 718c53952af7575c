// RNN, LSTM, GRU: whole recurrent layers, each call one operator.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/activation.h"
#include "kaon/gluon/rnn/cell_stack.h"
#include "kaon/gluon/rnn/recurrent_cell.h"

namespace KAON_API kaon {
namespace gluon::rnn {

struct RNNOptions {
  int num_layers = 1;
  nn::ActivationName activation = ActivationType::relu;  // or tanh
  Layout layout = Layout::TNC;
  double dropout = 0;  // between layers
  bool bidirectional = false;
  init::Initializer i2h_weight_initializer{};  // unset: the one given to initialize()
  init::Initializer h2h_weight_initializer{};
  init::Initializer i2h_bias_initializer = init::Zero();
  init::Initializer h2h_bias_initializer = init::Zero();
  int64_t input_size = 0;  // 0: from the first input
  DType dtype = DType::float32;
  bool use_sequence_length = false;
};
struct LSTMOptions {
  int num_layers = 1;
  Layout layout = Layout::TNC;
  double dropout = 0;
  bool bidirectional = false;
  int64_t input_size = 0;
  init::Initializer i2h_weight_initializer{};
  init::Initializer h2h_weight_initializer{};
  init::Initializer i2h_bias_initializer = init::Zero();
  init::Initializer h2h_bias_initializer = init::Zero();
  std::optional<int64_t> projection_size{};
  init::Initializer h2r_weight_initializer{};
  std::optional<double> state_clip_min{};  // bounds of c; both or none
  std::optional<double> state_clip_max{};
  bool state_clip_nan = false;
  DType dtype = DType::float32;
  bool use_sequence_length = false;
};
struct GRUOptions {
  int num_layers = 1;
  Layout layout = Layout::TNC;
  double dropout = 0;
  bool bidirectional = false;
  int64_t input_size = 0;
  init::Initializer i2h_weight_initializer{};
  init::Initializer h2h_weight_initializer{};
  init::Initializer i2h_bias_initializer = init::Zero();
  init::Initializer h2h_bias_initializer = init::Zero();
  DType dtype = DType::float32;
  bool use_sequence_length = false;
};
static_assert(std::is_trivially_destructible_v<RNNOptions> && std::is_trivially_destructible_v<LSTMOptions>);

namespace detail {

// The options of all three.
struct LayerOptions {
  op::RNN op;
  Layout layout;
  int64_t input_size;
  init::Initializer i2h_weight, h2h_weight, i2h_bias, h2h_bias, h2r_weight;
  DType dtype;
};
KAON_API LayerOptions layer_options(int64_t hidden_size, const RNNOptions& options);
KAON_API LayerOptions layer_options(int64_t hidden_size, const LSTMOptions& options);
KAON_API LayerOptions layer_options(int64_t hidden_size, const GRUOptions& options);

// One call of the layer `block`; no states: zeros. `weights` and `biases` as op::RNN has them.
template <class A>
KAON_API Step<A> call_layer(const Block& block, const LayerOptions& options, const std::vector<Parameter>& weights,
                            const std::vector<Parameter>& biases, const A& x, const std::vector<A>& states,
                            const A* sequence_length);

template <class Derived>
class RecurrentLayer : public HybridBlock<Derived> {
 public:
  using HybridBlock<Derived>::operator();
  template <Array A>
  auto operator()(const A& x, const std::vector<A>& states,
                  std::source_location site = std::source_location::current()) const {
    return HybridBlock<Derived>::operator()(x, states, site);
  }
  template <Array A>
  auto operator()(const A& x, const std::vector<A>& states, const A& sequence_length,
                  std::source_location site = std::source_location::current()) const {
    return HybridBlock<Derived>::operator()(x, states, sequence_length, site);
  }

  auto hybrid_forward(auto, auto x) { return call<decltype(x)>(x, {}, nullptr).first; }
  auto hybrid_forward(auto, auto x, const auto& states) {
    using A = decltype(x);
    if constexpr (std::same_as<std::remove_cvref_t<decltype(states)>, A>) {
      return call<A>(x, {states}, nullptr);
    } else {
      return call<A>(x, states, nullptr);
    }
  }
  auto hybrid_forward(auto, auto x, const auto& states, const auto& sequence_length) {
    using A = decltype(x);
    if constexpr (std::same_as<std::remove_cvref_t<decltype(states)>, A>) {
      return call<A>(x, {states}, &sequence_length);
    } else {
      return call<A>(x, states, &sequence_length);
    }
  }

  // h, of an LSTM also c: (layers and directions, batch, hidden or, of a projected h, projection_size).
  std::vector<StateInfo> state_info(int64_t batch_size = 0) const;
  // Arrays to begin with, one for each state_info(batch_size). Does not block. Throws as Initializer does.
  std::vector<NDArray> begin_state(int64_t batch_size, const BeginStateOptions& options = {}) const {
    return detail::begin_state(*this, state_info(batch_size), options);
  }
  // Cells that compute the same, to be unrolled: a stack that shares the parameters, as MXNet's _unfuse(). With
  // dropout, elements are drawn anew. Throws ValueError for state_clip_min, which cells lack.
  HybridSequentialRNNCell unfuse() const;

 protected:
  RecurrentLayer(std::string_view hint, const LayerOptions& options);

 private:
  template <class A>
  Step<A> call(const A& x, const std::vector<A>& states, const A* sequence_length) const {
    return call_layer<A>(*this, options_, weights_, biases_, x, states, sequence_length);
  }
  LayerOptions options_;
  std::vector<Parameter> weights_, biases_;
};

}  // namespace detail

// Recurrent layers over x (length, batch, input), or (batch, length, input) with Layout::NTC: op::RNN has the formulae.
// layer(x) begins with zeros and returns the output of the last layer, of x's layout, as wide as its states, twice that
// if bidirectional. layer(x, states) returns pair(output, new states); states are as state_info() says, one array or a
// vector of them, and an empty vector stands for zeros. With use_sequence_length a third array (batch,) says how many
// steps each sequence has: results after them are 0, the new states are those after the last one, and the other
// direction begins there. Parameters and their names are MXNet's: l0_i2h_weight, l0_h2h_weight, l0_i2h_bias,
// l0_h2h_bias, for the other direction r0_..., with projection l0_h2r_weight; files have them as MXNet's files have.
// Throws ValueError for sizes and numbers of states, and as op::RNN does.
struct RNN : detail::RecurrentLayer<RNN> {
  explicit RNN(int64_t hidden_size, const RNNOptions& options = {});
};

// The same with gates and a cell state; with projection_size h is projected (Sak et al. 2014).
struct LSTM : detail::RecurrentLayer<LSTM> {
  explicit LSTM(int64_t hidden_size, const LSTMOptions& options = {});
};

// The same with gates alone: cuDNN's form of Cho et al. 2014.
struct GRU : detail::RecurrentLayer<GRU> {
  explicit GRU(int64_t hidden_size, const GRUOptions& options = {});
};

}  // namespace gluon::rnn
}  // namespace kaon
