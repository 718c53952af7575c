#include "kaon/gluon/rnn/conv_rnn_cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kaon/gluon/nn/conv.h"

namespace kaon::gluon::rnn::detail {

template <class Derived>
ConvCell<Derived>::ConvCell(std::string_view hint, int axes, const Shape& input_shape, int64_t hidden_channels,
                            int gates, const ConvCellOptions& o)
    : RecurrentCell<Derived>(hint), activation_(o.activation.type()) {
  constexpr ConvLayout first[] = {ConvLayout::NCW, ConvLayout::NCHW, ConvLayout::NCDHW};
  constexpr std::string_view name = "ConvCell";
  if (hidden_channels < 1 || hidden_channels > std::numeric_limits<int>::max() / gates) {
    throw ValueError(fmt::format("[{}] hidden_channels must be at least 1, got {}", name, hidden_channels));
  }
  if (input_shape.ndim() != axes + 1 ||
      std::any_of(input_shape.begin(), input_shape.end(), [](int64_t n) { return n < 0; })) {
    throw ValueError(fmt::format("[{}] input_shape must be that of a step of one sample, channels and {} axes, got {}",
                                 name, axes, input_shape.str()));
  }
  layout_ = nn::detail::layout(o.conv_layout, axes, "ConvCell conv_layout").value_or(first[axes - 1]);
  const bool channels_last = ops::is_channels_last(layout_);
  channel_axis_ = channels_last ? axes + 1 : 1;
  const int filters = int(gates * hidden_channels);
  i2h_ = {.kernel = nn::detail::window(o.i2h_kernel, axes, 1, "ConvCell i2h_kernel"),
          .stride = Shape::filled(axes, 1),
          .dilate = nn::detail::window(o.i2h_dilate, axes, 1, "ConvCell i2h_dilate"),
          .pad = nn::detail::window(o.i2h_pad, axes, 0, "ConvCell i2h_pad"),
          .num_filter = filters,
          .layout = layout_};
  h2h_ = {.kernel = nn::detail::window(o.h2h_kernel, axes, 1, "ConvCell h2h_kernel"),
          .stride = Shape::filled(axes, 1),
          .dilate = nn::detail::window(o.h2h_dilate, axes, 1, "ConvCell h2h_dilate"),
          .pad = Shape::filled(axes, 0),
          .num_filter = filters,
          .layout = layout_};

  Shape i2h(filters), h2h(filters), places;
  const int64_t in_channels = input_shape[channels_last ? axes : 0];
  if (!channels_last)
    i2h.push_back(in_channels), h2h.push_back(hidden_channels), state_shape_.push_back(hidden_channels);
  for (int i = 0; i < axes; ++i) {
    const int64_t k = h2h_.kernel[i], size = input_shape[channels_last ? i : i + 1];
    if (k % 2 == 0) {
      throw ValueError(
          fmt::format("[{}] h2h_kernel must be odd, so that states keep their size, got {}", name, o.h2h_kernel.str()));
    }
    h2h_.pad[i] = h2h_.dilate[i] * (k - 1) / 2;
    const int64_t reach = i2h_.dilate[i] * (i2h_.kernel[i] - 1) + 1;
    if (size + 2 * i2h_.pad[i] < reach) {
      throw ValueError(fmt::format("[{}] i2h_kernel reaches over {} places of axis {}, input_shape {} has {}", name,
                                   reach, i, input_shape.str(), size + 2 * i2h_.pad[i]));
    }
    state_shape_.push_back(size + 2 * i2h_.pad[i] - reach + 1);
    i2h.push_back(i2h_.kernel[i]);
    h2h.push_back(k);
  }
  if (channels_last)
    i2h.push_back(in_channels), h2h.push_back(hidden_channels), state_shape_.push_back(hidden_channels);
  i2h_weight = this->param("i2h_weight", i2h, {.init = o.i2h_weight_initializer});
  h2h_weight = this->param("h2h_weight", h2h, {.init = o.h2h_weight_initializer});
  i2h_bias = this->param("i2h_bias", {filters}, {.init = o.i2h_bias_initializer});
  h2h_bias = this->param("h2h_bias", {filters}, {.init = o.h2h_bias_initializer});
}

template <class Derived>
StateInfo ConvCell<Derived>::state(int64_t batch_size) const {
  Shape shape(batch_size);
  for (int64_t n : state_shape_) shape.push_back(n);
  return {shape, enum_names(layout_)[size_t(layout_)]};
}

template class ConvCell<ConvRNNCell<1>>;
template class ConvCell<ConvRNNCell<2>>;
template class ConvCell<ConvRNNCell<3>>;
template class ConvCell<ConvLSTMCell<1>>;
template class ConvCell<ConvLSTMCell<2>>;
template class ConvCell<ConvLSTMCell<3>>;
template class ConvCell<ConvGRUCell<1>>;
template class ConvCell<ConvGRUCell<2>>;
template class ConvCell<ConvGRUCell<3>>;

}  // namespace kaon::gluon::rnn::detail
