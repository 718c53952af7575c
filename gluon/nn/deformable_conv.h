// Deformable convolution layers (contrib.cnn in MXNet).
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/conv.h"

namespace KAON_API kaon {
namespace gluon::nn {

// Window sizes of one number hold for both axes.
struct DeformableConvOptions {
  Shape kernel_size{1};
  Shape strides{1};
  Shape padding{0};
  Shape dilation{1};
  int groups = 1;
  int num_deformable_group = 1;  // groups of channels that have offsets of their own
  ActivationName activation{};
  bool use_bias = true;
  bool offset_use_bias = true;
  init::Initializer weight_initializer{};  // unset: the one given to initialize()
  init::Initializer bias_initializer = init::Zero();
  init::Initializer offset_weight_initializer = init::Zero();
  init::Initializer offset_bias_initializer = init::Zero();
  int64_t in_channels = 0;  // 0: from the first input
};
static_assert(std::is_trivially_destructible_v<DeformableConvOptions>);

namespace detail {

// Op: op::DeformableConvolution, or op::ModulatedDeformableConvolution.
template <class Derived, class Op>
class DeformableConv : public HybridBlock<Derived> {
 public:
  static constexpr bool is_modulated = std::same_as<Op, op::ModulatedDeformableConvolution>;

  auto hybrid_forward(auto F, auto x) {
    auto at = offset_bias.defined() ? F.Convolution(x, F(offset_weight), F(offset_bias), offset_)
                                    : F.Convolution(x, F(offset_weight), offset_);
    x = convolve(F, x, at);
    return activation_ ? (*activation_)(x) : x;
  }

  Parameter offset_weight;           // (offset channels, in_channels / groups, height, width)
  Parameter offset_bias;             // not defined without offset_use_bias
  Parameter deformable_conv_weight;  // (channels, in_channels / groups, height, width)
  Parameter deformable_conv_bias;    // not defined without use_bias

 protected:
  DeformableConv(const char* hint, int64_t channels, const DeformableConvOptions& options);

 private:
  auto convolve(auto F, auto x, auto at) {
    auto f = F.as("fwd");
    const auto with_bias = [&](const auto& call) {
      return deformable_conv_bias.defined() ? call(F(deformable_conv_weight), F(deformable_conv_bias))
                                            : call(F(deformable_conv_weight));
    };
    if constexpr (is_modulated) {
      const int64_t offsets = 2 * op_.num_deformable_group * op_.kernel.size();
      auto offset = F.slice_axis(at, 1, 0, offsets), mask = 2 * F.sigmoid(F.slice_axis(at, 1, offsets));
      return with_bias([&](const auto&... w) { return f.ModulatedDeformableConvolution(x, offset, mask, w..., op_); });
    } else {
      return with_bias([&](const auto&... w) { return f.DeformableConvolution(x, at, w..., op_); });
    }
  }

  op::Convolution offset_;
  Op op_;
  std::optional<Activation> activation_;
};

}  // namespace detail

// A convolution whose window's positions are moved by offsets, which a second convolution of x computes (Dai et al.
// 2017): x (batch, in_channels, height, width), y as Conv2D's. Floating dtypes.
struct DeformableConvolution : detail::DeformableConv<DeformableConvolution, op::DeformableConvolution> {
  explicit DeformableConvolution(int64_t channels, const DeformableConvOptions& options = {});
};

// The same with a factor in (0, 2) for every position of the window, computed along with the offsets (Zhu et al. 2019).
struct ModulatedDeformableConvolution
    : detail::DeformableConv<ModulatedDeformableConvolution, op::ModulatedDeformableConvolution> {
  explicit ModulatedDeformableConvolution(int64_t channels, const DeformableConvOptions& options = {});
};

}  // namespace gluon::nn
}  // namespace kaon
