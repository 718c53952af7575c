// VGG (Simonyan and Zisserman 2014) and AlexNet (Krizhevsky 2014): convolutions, then three dense layers.
#include <fmt/format.h>

#include "kaon/gluon/model_zoo/internal/families.h"

namespace kaon::gluon::model_zoo::vision::detail {
namespace {

// How many convolutions are before each of the five poolings.
struct VggDepth {
  int num_layers;
  int convolutions[5];
};
constexpr VggDepth vgg_depths[] = {
    {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};
constexpr int64_t channels[] = {64, 128, 256, 512, 512};

const VggDepth& vgg_depth(int num_layers) {
  for (const VggDepth& d : vgg_depths) {
    if (d.num_layers == num_layers) return d;
  }
  throw ValueError(fmt::format("[VGG] there is none of {} layers", num_layers));
}

}  // namespace

Model vgg(int num_layers, bool batch_norm, const ModelOptions& options) {
  const VggDepth& depth = vgg_depth(num_layers);
  const auto xavier =
      init::Xavier({.rnd_type = init::RndType::gaussian, .factor_type = init::FactorType::out, .magnitude = 2});
  const nn::DenseOptions hidden{.activation = "relu", .weight_initializer = init::Normal()};
  nn::HybridSequential features;
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < depth.convolutions[i]; ++j) {
      features.add(nn::Conv2D(channels[i], {.kernel_size = 3, .padding = 1, .weight_initializer = xavier}));
      if (batch_norm) features.add(nn::BatchNorm());
      features.add(nn::Activation("relu"));
    }
    features.add(nn::MaxPool2D());
  }
  features.add(nn::Dense(4096, hidden), nn::Dropout(0.5), nn::Dense(4096, hidden), nn::Dropout(0.5));
  return Model("vgg", features, nn::Dense(options.classes, {.weight_initializer = init::Normal()}));
}

Model alexnet(const ModelOptions& options) {
  const nn::MaxPoolOptions pool{.pool_size = 3, .strides = 2};
  const auto conv3x3 = [](int64_t n) { return nn::Conv2D(n, {.kernel_size = 3, .padding = 1, .activation = "relu"}); };
  nn::HybridSequential features;
  features.add(nn::Conv2D(64, {.kernel_size = 11, .strides = 4, .padding = 2, .activation = "relu"}),
               nn::MaxPool2D(pool), nn::Conv2D(192, {.kernel_size = 5, .padding = 2, .activation = "relu"}),
               nn::MaxPool2D(pool), conv3x3(384), conv3x3(256), conv3x3(256), nn::MaxPool2D(pool), nn::Flatten());
  for (int i = 0; i < 2; ++i) features.add(nn::Dense(4096, {.activation = "relu"}), nn::Dropout(0.5));
  return Model("alexnet", features, nn::Dense(options.classes));
}

}  // namespace kaon::gluon::model_zoo::vision::detail
