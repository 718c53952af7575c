#include "kaon/gluon/model_zoo/resnet.h"

#include <fmt/format.h>

namespace kaon::gluon::model_zoo::vision {
namespace {

nn::Conv2D conv3x3(int64_t channels, int64_t stride, int64_t in_channels) {
  return nn::Conv2D(channels,
                    {.kernel_size = 3, .strides = stride, .padding = 1, .use_bias = false, .in_channels = in_channels});
}

// How often each of the four stages repeats its block.
struct ResNetDepth {
  int num_layers;
  bool bottleneck;
  int blocks[4];
};
constexpr ResNetDepth resnet_depths[] = {{18, false, {2, 2, 2, 2}},
                                         {34, false, {3, 4, 6, 3}},
                                         {50, true, {3, 4, 6, 3}},
                                         {101, true, {3, 4, 23, 3}},
                                         {152, true, {3, 8, 36, 3}}};

const ResNetDepth& resnet_depth(int num_layers) {
  std::string known;
  for (const ResNetDepth& d : resnet_depths) {
    if (d.num_layers == num_layers) return d;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", d.num_layers);
  }
  throw ValueError(fmt::format("[ResNetV1] there is none of {} layers; there are: {}", num_layers, known));
}

// `count` blocks; the first changes the size and the number of channels.
template <class Block>
nn::HybridSequential stage(int count, int64_t channels, int64_t stride, int64_t in_channels) {
  nn::HybridSequential blocks;
  blocks.add(Block(channels, stride, channels != in_channels, in_channels));
  for (int i = 1; i < count; ++i) blocks.add(Block(channels, 1, false, channels));
  return blocks;
}

}  // namespace

namespace detail {

template <class Derived>
ResidualBlock<Derived>::ResidualBlock(std::string_view hint, int64_t channels, int64_t stride, bool downsample,
                                      int64_t in_channels)
    : HybridBlock<Derived>(hint) {
  if (!downsample && (stride != 1 || (in_channels != 0 && in_channels != channels))) {
    throw ValueError(
        fmt::format("[{}] without downsample the stride is 1 and the channels stay, got stride {} and {} channels from "
                    "{}",
                    hint, stride, channels, in_channels));
  }
  body_ = this->child("body", nn::HybridSequential());
  if (!downsample) return;
  nn::Conv2D conv(channels, {.kernel_size = 1, .strides = stride, .use_bias = false, .in_channels = in_channels});
  downsample_ = this->child("downsample", nn::HybridSequential(conv, nn::BatchNorm()));
}

}  // namespace detail

BasicBlockV1::BasicBlockV1(int64_t channels, int64_t stride, bool downsample, int64_t in_channels)
    : ResidualBlock("basicblockv1", channels, stride, downsample, in_channels) {
  body_.add(conv3x3(channels, stride, downsample ? in_channels : channels), nn::BatchNorm(), nn::Activation("relu"),
            conv3x3(channels, 1, channels), nn::BatchNorm());
}

BottleneckV1::BottleneckV1(int64_t channels, int64_t stride, bool downsample, int64_t in_channels)
    : ResidualBlock("bottleneckv1", channels, stride, downsample, in_channels) {
  if (channels < 4 || channels % 4 != 0)
    throw ValueError(fmt::format("[BottleneckV1] channels must be a multiple of 4, got {}", channels));
  const int64_t inside = channels / 4;
  nn::Conv2D narrow(inside, {.kernel_size = 1, .strides = stride, .in_channels = downsample ? in_channels : channels});
  nn::Conv2D wide(channels, {.kernel_size = 1, .in_channels = inside});
  body_.add(narrow, nn::BatchNorm(), nn::Activation("relu"), conv3x3(inside, 1, inside), nn::BatchNorm(),
            nn::Activation("relu"), wide, nn::BatchNorm());
}

ResNetV1::ResNetV1(int num_layers, const ResNetOptions& options)
    : HybridBlock("resnetv1"),
      features(child("features", nn::HybridSequential())),
      output(
          child("output", nn::Dense(options.classes, {.in_units = resnet_depth(num_layers).bottleneck ? 2048 : 512}))) {
  const ResNetDepth& depth = resnet_depth(num_layers);
  if (options.thumbnail) {
    features.add(conv3x3(64, 1, 0));
  } else {
    features.add(nn::Conv2D(64, {.kernel_size = 7, .strides = 2, .padding = 3, .use_bias = false}), nn::BatchNorm(),
                 nn::Activation("relu"), nn::MaxPool2D({.pool_size = 3, .strides = 2, .padding = 1}));
  }
  int64_t in_channels = 64;
  for (int i = 0; i < 4; ++i) {
    const int64_t stride = i == 0 ? 1 : 2, channels = (depth.bottleneck ? 256 : 64) << i;
    features.add(depth.bottleneck ? stage<BottleneckV1>(depth.blocks[i], channels, stride, in_channels)
                                  : stage<BasicBlockV1>(depth.blocks[i], channels, stride, in_channels));
    in_channels = channels;
  }
  features.add(nn::GlobalAvgPool2D());
}

ResNetV1 resnet18_v1(const ResNetOptions& options) { return ResNetV1(18, options); }
ResNetV1 resnet34_v1(const ResNetOptions& options) { return ResNetV1(34, options); }
ResNetV1 resnet50_v1(const ResNetOptions& options) { return ResNetV1(50, options); }
ResNetV1 resnet101_v1(const ResNetOptions& options) { return ResNetV1(101, options); }
ResNetV1 resnet152_v1(const ResNetOptions& options) { return ResNetV1(152, options); }

}  // namespace kaon::gluon::model_zoo::vision
