#include "kaon/gluon/nn/deformable_conv.h"

#include <fmt/format.h>

namespace kaon::gluon::nn {
namespace detail {

template <class Derived, class Op>
DeformableConv<Derived, Op>::DeformableConv(const char* hint, int64_t channels, const DeformableConvOptions& o)
    : HybridBlock<Derived>(hint) {
  check_groups(channels, o.groups, o.in_channels);
  if (o.num_deformable_group < 1) {
    throw ValueError(fmt::format("[{}] num_deformable_group must be positive, got {}", hint, o.num_deformable_group));
  }
  op_.kernel = window(o.kernel_size, 2, 1, "Conv kernel_size");
  op_.stride = window(o.strides, 2, 1, "Conv strides");
  op_.dilate = window(o.dilation, 2, 1, "Conv dilation");
  op_.pad = window(o.padding, 2, 0, "Conv padding");
  op_.num_filter = int(channels);
  op_.num_group = o.groups;
  op_.num_deformable_group = o.num_deformable_group;
  const int64_t offsets = (is_modulated ? 3 : 2) * op_.kernel.size() * o.num_deformable_group;
  offset_ = {.kernel = op_.kernel,
             .stride = op_.stride,
             .dilate = op_.dilate,
             .pad = op_.pad,
             .num_filter = int(offsets),
             .num_group = o.groups};
  const auto weight = [&](int64_t filters) {
    return Shape(filters, o.in_channels / o.groups, op_.kernel[0], op_.kernel[1]);
  };
  offset_weight = this->param("offset_weight", weight(offsets), {.init = o.offset_weight_initializer});
  if (o.offset_use_bias) offset_bias = this->param("offset_bias", {offsets}, {.init = o.offset_bias_initializer});
  deformable_conv_weight = this->param("deformable_conv_weight", weight(channels), {.init = o.weight_initializer});
  if (o.use_bias) {
    deformable_conv_bias = this->param("deformable_conv_bias", {channels}, {.init = o.bias_initializer});
  }
  if (o.activation.is_set()) activation_ = this->child("act", Activation(o.activation));
}

template class DeformableConv<DeformableConvolution, op::DeformableConvolution>;
template class DeformableConv<ModulatedDeformableConvolution, op::ModulatedDeformableConvolution>;

}  // namespace detail

DeformableConvolution::DeformableConvolution(int64_t channels, const DeformableConvOptions& options)
    : DeformableConv("deformable_conv", channels, options) {}
ModulatedDeformableConvolution::ModulatedDeformableConvolution(int64_t channels, const DeformableConvOptions& options)
    : DeformableConv("modulated_deformable_conv", channels, options) {}

}  // namespace kaon::gluon::nn
