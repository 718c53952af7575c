// Convolution layers, and transposed ones.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/activation.h"

namespace KAON_API kaon {
namespace gluon::nn {

// Window sizes of one number hold for every axis.
struct ConvOptions {
  Shape kernel_size{};  // required
  Shape strides{1};
  Shape padding{0};
  Shape dilation{1};
  int groups = 1;
  ActivationName activation{};
  bool use_bias = true;
  init::Initializer weight_initializer{};  // unset: the one given to initialize()
  init::Initializer bias_initializer = init::Zero();
  int64_t in_channels = 0;             // 0: from the first input
  std::optional<ConvLayout> layout{};  // unset: NCW, NCHW, NCDHW; or NWC, NHWC, NDHWC
};
static_assert(std::is_trivially_destructible_v<ConvOptions>);

namespace detail {

// `given` for each of `axes` axes. Throws ValueError naming `what` when the count or a value below `least` is wrong.
KAON_API Shape window(const Shape& given, int axes, int64_t least, const char* what);

// Throws ValueError unless channels is positive and `groups` divides both numbers.
KAON_API void check_groups(int64_t channels, int groups, int64_t in_channels);

// `given`, if it is a layout of images with `axes` spatial axes. Throws ValueError naming `what` otherwise.
KAON_API std::optional<ConvLayout> layout(std::optional<ConvLayout> given, int axes, const char* what);

// A convolution, or with op::Deconvolution a transposed one.
template <class Derived, class Op = op::Convolution>
class Conv : public HybridBlock<Derived> {
 public:
  auto hybrid_forward(auto F, auto x) {
    auto f = F.as("fwd");
    if constexpr (std::same_as<Op, op::Convolution>) {
      x = bias.defined() ? f.Convolution(x, F(weight), F(bias), op_) : f.Convolution(x, F(weight), op_);
    } else {
      x = bias.defined() ? f.Deconvolution(x, F(weight), F(bias), op_) : f.Deconvolution(x, F(weight), op_);
    }
    return activation_ ? (*activation_)(x) : x;
  }

  Parameter weight;
  Parameter bias;  // not defined without use_bias

 protected:
  Conv(int axes, int64_t channels, const ConvOptions& options);
  Op op_;

 private:
  std::optional<Activation> activation_;
};

}  // namespace detail

// Cross-correlation along one axis: x (batch, in_channels, width), weight (channels, in_channels / groups, kernel), y
// (batch, channels, (width + 2 padding - dilation (kernel - 1) - 1) / strides + 1). With layout NWC the axis of
// channels is the last of x, weight and y; so it is with NHWC and NDHWC below.
struct Conv1D : detail::Conv<Conv1D> {
  explicit Conv1D(int64_t channels, const ConvOptions& options = {});
};

// The same over images: x (batch, in_channels, height, width), weight (channels, in_channels / groups, height, width).
struct Conv2D : detail::Conv<Conv2D> {
  explicit Conv2D(int64_t channels, const ConvOptions& options = {});
};

// The same over volumes: x (batch, in_channels, depth, height, width).
struct Conv3D : detail::Conv<Conv3D> {
  explicit Conv3D(int64_t channels, const ConvOptions& options = {});
};

// --- transposed

// Window sizes of one number hold for every axis.
struct ConvTransposeOptions {
  Shape kernel_size{};  // required
  Shape strides{1};
  Shape padding{0};
  Shape output_padding{0};  // further positions at the end of each axis, less than its stride
  Shape dilation{1};
  int groups = 1;
  ActivationName activation{};
  bool use_bias = true;
  init::Initializer weight_initializer{};  // unset: the one given to initialize()
  init::Initializer bias_initializer = init::Zero();
  int64_t in_channels = 0;             // 0: from the first input
  std::optional<ConvLayout> layout{};  // unset: NCW, NCHW, NCDHW; or NWC, NHWC, NDHWC
};
static_assert(std::is_trivially_destructible_v<ConvTransposeOptions>);

// The gradient of a convolution as a layer: x (batch, in_channels, width), weight (in_channels, channels / groups,
// kernel), y (batch, channels, (width - 1) strides - 2 padding + dilation (kernel - 1) + 1 + output_padding). With
// layout NWC the axis of channels is the last of x and y, and that of channels / groups the last of weight; so it is
// with NHWC and NDHWC below.
struct Conv1DTranspose : detail::Conv<Conv1DTranspose, op::Deconvolution> {
  explicit Conv1DTranspose(int64_t channels, const ConvTransposeOptions& options = {});
};

// The same over images: x (batch, in_channels, height, width).
struct Conv2DTranspose : detail::Conv<Conv2DTranspose, op::Deconvolution> {
  explicit Conv2DTranspose(int64_t channels, const ConvTransposeOptions& options = {});
};

// The same over volumes: x (batch, in_channels, depth, height, width).
struct Conv3DTranspose : detail::Conv<Conv3DTranspose, op::Deconvolution> {
  explicit Conv3DTranspose(int64_t channels, const ConvTransposeOptions& options = {});
};

}  // namespace gluon::nn
}  // namespace kaon
