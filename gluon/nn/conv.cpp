#include "kaon/gluon/nn/conv.h"

#include <fmt/format.h>

#include <limits>

namespace kaon::gluon::nn {
namespace detail {

Shape window(const Shape& given, int axes, int64_t least, const char* what) {
  Shape full = given.ndim() == 1 ? Shape::filled(axes, given[0]) : given;
  bool fits = full.ndim() == axes;
  for (int64_t v : full) fits = fits && v >= least;
  if (!fits) {
    throw ValueError(
        fmt::format("[{}] one number or {} numbers of at least {} are needed, got {}", what, axes, least, given.str()));
  }
  return full;
}

std::optional<ConvLayout> layout(std::optional<ConvLayout> given, int axes, const char* what) {
  constexpr ConvLayout first[] = {ConvLayout::NCW, ConvLayout::NCHW, ConvLayout::NCDHW};
  constexpr ConvLayout last[] = {ConvLayout::NWC, ConvLayout::NHWC, ConvLayout::NDHWC};
  const ConvLayout one = first[axes - 1], other = last[axes - 1];
  if (given && *given != one && *given != other) {
    const auto name = [](ConvLayout l) { return enum_names(l)[size_t(l)]; };
    throw ValueError(fmt::format("[{}] layout must be {} or {}, got {}", what, name(one), name(other), name(*given)));
  }
  return given;
}

void check_groups(int64_t channels, int groups, int64_t in_channels) {
  if (channels < 1 || channels > std::numeric_limits<int>::max()) {
    throw ValueError(fmt::format("[Conv] channels must be positive, got {}", channels));
  }
  if (groups < 1 || channels % groups != 0 || in_channels % groups != 0 || in_channels < 0) {
    throw ValueError(
        fmt::format("[Conv] groups must divide the channels, got {} groups, {} channels and {} in_channels", groups,
                    channels, in_channels));
  }
}

template <class Derived, class Op>
Conv<Derived, Op>::Conv(int axes, int64_t channels, const ConvOptions& o) : HybridBlock<Derived>("conv") {
  check_groups(channels, o.groups, o.in_channels);
  constexpr bool is_transposed = std::same_as<Op, op::Deconvolution>;
  op_ = {.kernel = window(o.kernel_size, axes, 1, "Conv kernel_size"),
         .stride = window(o.strides, axes, 1, "Conv strides"),
         .dilate = window(o.dilation, axes, 1, "Conv dilation"),
         .pad = window(o.padding, axes, 0, "Conv padding"),
         .num_filter = int(channels),
         .num_group = o.groups,
         .layout = detail::layout(o.layout, axes, "Conv")};
  const bool channels_last = ops::is_channels_last(o.layout);
  // a filter sees in_channels / groups channels; transposed, each input channel goes to channels / groups
  const int64_t per_group = (is_transposed ? channels : o.in_channels) / o.groups;
  Shape shape(is_transposed ? o.in_channels : channels);
  if (!channels_last) shape.push_back(per_group);
  for (int64_t k : op_.kernel) shape.push_back(k);
  if (channels_last) shape.push_back(per_group);
  weight = this->param("weight", shape, {.init = o.weight_initializer});
  if (o.use_bias) bias = this->param("bias", {channels}, {.init = o.bias_initializer});
  if (o.activation.is_set()) activation_ = this->child(o.activation.name(), Activation(o.activation));
}

template class Conv<Conv1D>;
template class Conv<Conv2D>;
template class Conv<Conv3D>;
template class Conv<Conv1DTranspose, op::Deconvolution>;
template class Conv<Conv2DTranspose, op::Deconvolution>;
template class Conv<Conv3DTranspose, op::Deconvolution>;

}  // namespace detail

Conv1D::Conv1D(int64_t channels, const ConvOptions& options) : Conv(1, channels, options) {}
Conv2D::Conv2D(int64_t channels, const ConvOptions& options) : Conv(2, channels, options) {}
Conv3D::Conv3D(int64_t channels, const ConvOptions& options) : Conv(3, channels, options) {}

namespace {

ConvOptions common(const ConvTransposeOptions& o) {
  return {.kernel_size = o.kernel_size,
          .strides = o.strides,
          .padding = o.padding,
          .dilation = o.dilation,
          .groups = o.groups,
          .activation = o.activation,
          .use_bias = o.use_bias,
          .weight_initializer = o.weight_initializer,
          .bias_initializer = o.bias_initializer,
          .in_channels = o.in_channels,
          .layout = o.layout};
}

}  // namespace

Conv1DTranspose::Conv1DTranspose(int64_t channels, const ConvTransposeOptions& o) : Conv(1, channels, common(o)) {
  op_.adj = detail::window(o.output_padding, op_.kernel.ndim(), 0, "Conv output_padding");
}
Conv2DTranspose::Conv2DTranspose(int64_t channels, const ConvTransposeOptions& o) : Conv(2, channels, common(o)) {
  op_.adj = detail::window(o.output_padding, op_.kernel.ndim(), 0, "Conv output_padding");
}
Conv3DTranspose::Conv3DTranspose(int64_t channels, const ConvTransposeOptions& o) : Conv(3, channels, common(o)) {
  op_.adj = detail::window(o.output_padding, op_.kernel.ndim(), 0, "Conv output_padding");
}

}  // namespace kaon::gluon::nn
