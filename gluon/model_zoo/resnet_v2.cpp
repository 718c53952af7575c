// Residual networks of the second kind (He et al. 2016), which normalise before each convolution; and those of the
// first kind as a Model.
#include <fmt/format.h>

#include <optional>

#include "kaon/gluon/model_zoo/internal/families.h"
#include "kaon/gluon/model_zoo/resnet.h"

namespace kaon::gluon::model_zoo::vision::detail {
namespace {

struct ResNetV2Depth {
  int num_layers;
  bool bottleneck;
  int blocks[4];  // of each stage
};
constexpr ResNetV2Depth resnet_v2_depths[] = {{18, false, {2, 2, 2, 2}},
                                              {34, false, {3, 4, 6, 3}},
                                              {50, true, {3, 4, 6, 3}},
                                              {101, true, {3, 4, 23, 3}},
                                              {152, true, {3, 8, 36, 3}}};

const ResNetV2Depth& resnet_v2_depth(int num_layers) {
  for (const ResNetV2Depth& d : resnet_v2_depths) {
    if (d.num_layers == num_layers) return d;
  }
  throw ValueError(fmt::format("[ResNetV2] there is none of {} layers", num_layers));
}

nn::Conv2D conv(int64_t channels, int64_t kernel_size, int64_t stride) {
  return nn::Conv2D(
      channels, {.kernel_size = {kernel_size}, .strides = {stride}, .padding = {kernel_size / 2}, .use_bias = false});
}

// x + body(x), where the body is BatchNorm, relu and a convolution, two or three times; where the body changes the
// shape, x goes through a convolution after the first relu.
struct Block : HybridBlock<Block> {
  Block(bool bottleneck, int64_t channels, int64_t stride, bool downsamples)
      : HybridBlock(bottleneck ? "bottleneckv2" : "basicblockv2") {
    if (bottleneck) {
      add(conv(channels / 4, 1, 1));
      add(conv(channels / 4, 3, stride));
      add(conv(channels, 1, 1));
    } else {
      add(conv(channels, 3, stride));
      add(conv(channels, 3, 1));
    }
    if (downsamples) downsample_ = child("downsample", conv(channels, 1, stride));
  }
  auto hybrid_forward(auto F, auto x) {
    auto residual = x;
    for (int i = 0; i < count_; ++i) {
      x = F.Activation((*norms_[i])(x), {.act_type = ActivationType::relu});
      if (i == 0 && downsample_) residual = (*downsample_)(x);
      x = (*convs_[i])(x);
    }
    return x + residual;
  }

 private:
  void add(const nn::Conv2D& c) {
    norms_[count_] = child(fmt::format("bn{}", count_ + 1), nn::BatchNorm());
    convs_[count_] = child(fmt::format("conv{}", count_ + 1), c);
    ++count_;
  }
  int count_ = 0;
  std::optional<nn::BatchNorm> norms_[3];
  std::optional<nn::Conv2D> convs_[3];
  std::optional<nn::Conv2D> downsample_;
};

}  // namespace

Model resnet_v1(int num_layers, const ModelOptions& options) {
  const ResNetV1 net(num_layers, {.classes = options.classes, .thumbnail = options.thumbnail});
  return Model("resnetv1", net.features, net.output);
}

Model resnet_v2(int num_layers, const ModelOptions& options) {
  const ResNetV2Depth& depth = resnet_v2_depth(num_layers);
  nn::HybridSequential features;
  features.add(nn::BatchNorm({.center = false, .scale = false}));  // of the images
  if (options.thumbnail) {
    features.add(conv(64, 3, 1));
  } else {
    features.add(conv(64, 7, 2), nn::BatchNorm(), nn::Activation("relu"),
                 nn::MaxPool2D({.pool_size = 3, .strides = 2, .padding = 1}));
  }
  int64_t in_channels = 64;
  for (int i = 0; i < 4; ++i) {
    const int64_t channels = (depth.bottleneck ? 256 : 64) << i;
    nn::HybridSequential stage;
    for (int j = 0; j < depth.blocks[i]; ++j) {
      stage.add(Block(depth.bottleneck, channels, i > 0 && j == 0 ? 2 : 1, channels != in_channels));
      in_channels = channels;
    }
    features.add(stage);
  }
  features.add(nn::BatchNorm(), nn::Activation("relu"), nn::GlobalAvgPool2D(), nn::Flatten());
  return Model("resnetv2", features, nn::Dense(options.classes, {.in_units = in_channels}));
}

}  // namespace kaon::gluon::model_zoo::vision::detail
