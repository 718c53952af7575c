// DenseNet-BC (Huang et al. 2016): each layer sees the outputs of all layers before it in its block.
#include <fmt/format.h>

#include "kaon/gluon/model_zoo/internal/families.h"

namespace kaon::gluon::model_zoo::vision::detail {
namespace {

struct DenseNetDepth {
  int num_layers;
  int64_t first_channels, growth;  // each layer adds `growth` channels
  int layers[4];                   // of each block
};
constexpr DenseNetDepth densenet_depths[] = {{121, 64, 32, {6, 12, 24, 16}},
                                             {161, 96, 48, {6, 12, 36, 24}},
                                             {169, 64, 32, {6, 12, 32, 32}},
                                             {201, 64, 32, {6, 12, 48, 32}}};

const DenseNetDepth& densenet_depth(int num_layers) {
  for (const DenseNetDepth& d : densenet_depths) {
    if (d.num_layers == num_layers) return d;
  }
  throw ValueError(fmt::format("[DenseNet] there is none of {} layers", num_layers));
}

// The input, and beside it `growth` new channels.
nn::HybridConcurrent dense_layer(int64_t growth, double dropout) {
  nn::HybridSequential added;
  added.add(nn::BatchNorm(), nn::Activation("relu"), nn::Conv2D(4 * growth, {.kernel_size = 1, .use_bias = false}),
            nn::BatchNorm(), nn::Activation("relu"),
            nn::Conv2D(growth, {.kernel_size = 3, .padding = 1, .use_bias = false}));
  if (dropout != 0) added.add(nn::Dropout(dropout));
  nn::HybridConcurrent layer(1);
  layer.add(nn::Identity(), added);
  return layer;
}

// Half the height and width.
nn::HybridSequential transition(int64_t channels) {
  return nn::HybridSequential(nn::BatchNorm(), nn::Activation("relu"),
                              nn::Conv2D(channels, {.kernel_size = 1, .use_bias = false}), nn::AvgPool2D());
}

}  // namespace

Model densenet(int num_layers, const ModelOptions& options) {
  const DenseNetDepth& depth = densenet_depth(num_layers);
  int64_t channels = depth.first_channels;
  nn::HybridSequential features;
  features.add(nn::Conv2D(channels, {.kernel_size = 7, .strides = 2, .padding = 3, .use_bias = false}), nn::BatchNorm(),
               nn::Activation("relu"), nn::MaxPool2D({.pool_size = 3, .strides = 2, .padding = 1}));
  for (int i = 0; i < 4; ++i) {
    nn::HybridSequential block;
    for (int j = 0; j < depth.layers[i]; ++j) block.add(dense_layer(depth.growth, options.dropout));
    features.add(block);
    if (i == 3) break;
    channels = (channels + depth.layers[i] * depth.growth) / 2;
    features.add(transition(channels));
  }
  features.add(nn::BatchNorm(), nn::Activation("relu"), nn::AvgPool2D({.pool_size = 7}), nn::Flatten());
  return Model("densenet", features, nn::Dense(options.classes));
}

}  // namespace kaon::gluon::model_zoo::vision::detail
