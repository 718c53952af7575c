// Residual networks of the first kind (He et al. 2015), with the structure and the parameters of MXNet's model zoo.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/nn.h"

namespace KAON_API kaon {
namespace gluon::model_zoo::vision {

namespace detail {

// relu(x + body(x)); x goes through `downsample` where the body changes its shape.
template <class Derived>
class ResidualBlock : public HybridBlock<Derived> {
 public:
  auto hybrid_forward(auto F, auto x) {
    auto y = body_(x);
    return F.Activation((downsample_ ? (*downsample_)(x) : x) + y, {.act_type = ActivationType::relu});
  }

 protected:
  // Throws ValueError when the shapes could not be added. in_channels 0: as many as channels, or from the first input.
  ResidualBlock(std::string_view hint, int64_t channels, int64_t stride, bool downsample, int64_t in_channels);

  nn::HybridSequential body_;

 private:
  std::optional<nn::HybridSequential> downsample_;
};

}  // namespace detail

// Two 3x3 convolutions, the first with the stride.
struct BasicBlockV1 : detail::ResidualBlock<BasicBlockV1> {
  BasicBlockV1(int64_t channels, int64_t stride, bool downsample = false, int64_t in_channels = 0);
};

// 1x1, 3x3 and 1x1 convolutions with channels / 4 inside. As in MXNet the first has the stride, and the 1x1
// convolutions have a bias although BatchNorm follows.
struct BottleneckV1 : detail::ResidualBlock<BottleneckV1> {
  BottleneckV1(int64_t channels, int64_t stride, bool downsample = false, int64_t in_channels = 0);
};

struct ResNetOptions {
  int64_t classes = 1000;
  bool thumbnail = false;  // for small images: begins with one 3x3 convolution instead of 7x7, stride 2 and pooling
};

// Images (batch, channels, height, width) to (batch, classes). `num_layers`: 18 or 34, of BasicBlockV1; 50, 101 or 152,
// of BottleneckV1; else ValueError. save_parameters has the names of MXNet's: "features.4.0.body.0.weight".
struct ResNetV1 : HybridBlock<ResNetV1> {
  explicit ResNetV1(int num_layers, const ResNetOptions& options = {});
  auto hybrid_forward(auto, auto x) { return output(features(x)); }

  nn::HybridSequential features;
  nn::Dense output;
};

KAON_API ResNetV1 resnet18_v1(const ResNetOptions& options = {});
KAON_API ResNetV1 resnet34_v1(const ResNetOptions& options = {});
KAON_API ResNetV1 resnet50_v1(const ResNetOptions& options = {});
KAON_API ResNetV1 resnet101_v1(const ResNetOptions& options = {});
KAON_API ResNetV1 resnet152_v1(const ResNetOptions& options = {});

}  // namespace gluon::model_zoo::vision
}  // namespace kaon
