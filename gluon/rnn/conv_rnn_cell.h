// Convolutional cells: RNN, LSTM and GRU whose products are convolutions along one, two or three axes (Shi et al.
// 2015).
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/activation.h"
#include "kaon/gluon/rnn/recurrent_cell.h"

namespace KAON_API kaon {
namespace gluon::rnn {

// Sizes of one number hold for every axis.
struct ConvCellOptions {
  Shape i2h_kernel{};  // required
  Shape h2h_kernel{};  // required; odd numbers, so that states keep their size
  Shape i2h_pad{0};
  Shape i2h_dilate{1};
  Shape h2h_dilate{1};
  init::Initializer i2h_weight_initializer{};  // unset: the one given to initialize()
  init::Initializer h2h_weight_initializer{};
  init::Initializer i2h_bias_initializer = init::Zero();
  init::Initializer h2h_bias_initializer = init::Zero();
  std::optional<ConvLayout> conv_layout{};  // unset: NCW, NCHW, NCDHW; or NWC, NHWC, NDHWC
  nn::ActivationName activation = ActivationType::tanh;
};
static_assert(std::is_trivially_destructible_v<ConvCellOptions>);

namespace detail {

// i2h_weight (gates * channels, in_channels, i2h_kernel...), h2h_weight (gates * channels, channels, h2h_kernel...);
// with channels last as in conv_layout.
template <class Derived>
class ConvCell : public RecurrentCell<Derived> {
 public:
  Parameter i2h_weight, h2h_weight, i2h_bias, h2h_bias;

 protected:
  // input_shape: that of a step of one sample. Throws ValueError for sizes and layouts that do not fit.
  ConvCell(std::string_view hint, int axes, const Shape& input_shape, int64_t hidden_channels, int gates,
           const ConvCellOptions& options);
  StateInfo state(int64_t batch_size) const;
  auto i2h(auto F, const auto& x) const { return F.Convolution(x, F(i2h_weight), F(i2h_bias), i2h_); }
  auto h2h(auto F, const auto& h) const { return F.Convolution(h, F(h2h_weight), F(h2h_bias), h2h_); }
  auto split(auto F, const auto& gates, int n) const { return F.split(gates, n, {.axis = channel_axis_}); }
  auto activate(auto F, const auto& x) const { return F.Activation(x, {.act_type = activation_}); }

 private:
  op::Convolution i2h_, h2h_;
  int channel_axis_;
  Shape state_shape_;  // of one sample
  ConvLayout layout_;
  ActivationType activation_;
};

}  // namespace detail

// h' = f(W * x + b + U * h + b') with convolutions *, for x (batch, in_channels, places...), input_shape being all but
// the batch. The output is h' (batch, hidden_channels, places'...), whose places are those of a convolution with
// i2h_kernel, i2h_pad and i2h_dilate.
template <int Axes>
struct ConvRNNCell : detail::ConvCell<ConvRNNCell<Axes>> {
  ConvRNNCell(const Shape& input_shape, int64_t hidden_channels, const ConvCellOptions& options)
      : detail::ConvCell<ConvRNNCell>("conv_rnn", Axes, input_shape, hidden_channels, 1, options) {}
  std::vector<StateInfo> state_info(int64_t batch_size = 0) const { return {this->state(batch_size)}; }
  auto hybrid_forward(auto F, auto x, const auto& states) {
    this->expect_states(1, states.size());
    auto h = this->activate(F, this->i2h(F, x) + this->h2h(F, states[0]));
    return std::pair(h, std::vector{h});
  }
};

// (i, f, g, o) = W * x + b + U * h + b';  c' = s(f) c + s(i) f(g);  h' = s(o) f(c'), with f the activation and s the
// sigmoid. The output is h'; the states are h and c.
template <int Axes>
struct ConvLSTMCell : detail::ConvCell<ConvLSTMCell<Axes>> {
  ConvLSTMCell(const Shape& input_shape, int64_t hidden_channels, const ConvCellOptions& options)
      : detail::ConvCell<ConvLSTMCell>("conv_lstm", Axes, input_shape, hidden_channels, 4, options) {}
  std::vector<StateInfo> state_info(int64_t batch_size = 0) const {
    return {this->state(batch_size), this->state(batch_size)};
  }
  auto hybrid_forward(auto F, auto x, const auto& states) {
    this->expect_states(2, states.size());
    auto gates = this->split(F, this->i2h(F, x) + this->h2h(F, states[0]), 4);
    auto c = F.sigmoid(gates[1]) * states[1] + F.sigmoid(gates[0]) * this->activate(F, gates[2]);
    auto h = F.sigmoid(gates[3]) * this->activate(F, c);
    return std::pair(h, std::vector{h, c});
  }
};

// r, z = s(W * x + b + U * h + b');  n = f(W_n * x + b_n + r (U_n * h + b'_n));  h' = (1 - z) n + z h.
template <int Axes>
struct ConvGRUCell : detail::ConvCell<ConvGRUCell<Axes>> {
  ConvGRUCell(const Shape& input_shape, int64_t hidden_channels, const ConvCellOptions& options)
      : detail::ConvCell<ConvGRUCell>("conv_gru", Axes, input_shape, hidden_channels, 3, options) {}
  std::vector<StateInfo> state_info(int64_t batch_size = 0) const { return {this->state(batch_size)}; }
  auto hybrid_forward(auto F, auto x, const auto& states) {
    this->expect_states(1, states.size());
    auto from_x = this->split(F, this->i2h(F, x), 3), from_h = this->split(F, this->h2h(F, states[0]), 3);
    auto r = F.sigmoid(from_x[0] + from_h[0]), z = F.sigmoid(from_x[1] + from_h[1]);
    auto n = this->activate(F, from_x[2] + r * from_h[2]);
    auto h = (1 - z) * n + z * states[0];
    return std::pair(h, std::vector{h});
  }
};

using Conv1DRNNCell = ConvRNNCell<1>;
using Conv2DRNNCell = ConvRNNCell<2>;
using Conv3DRNNCell = ConvRNNCell<3>;
using Conv1DLSTMCell = ConvLSTMCell<1>;
using Conv2DLSTMCell = ConvLSTMCell<2>;
using Conv3DLSTMCell = ConvLSTMCell<3>;
using Conv1DGRUCell = ConvGRUCell<1>;
using Conv2DGRUCell = ConvGRUCell<2>;
using Conv3DGRUCell = ConvGRUCell<3>;

}  // namespace gluon::rnn
}  // namespace kaon
