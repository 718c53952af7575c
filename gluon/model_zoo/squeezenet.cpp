// SqueezeNet (Iandola et al. 2016): few channels, from which 1x1 and 3x3 convolutions make many, side by side.
#include "kaon/gluon/model_zoo/internal/families.h"

namespace kaon::gluon::model_zoo::vision::detail {
namespace {

nn::HybridSequential conv(int64_t channels, int64_t kernel_size) {
  return nn::HybridSequential(nn::Conv2D(channels, {.kernel_size = {kernel_size}, .padding = {kernel_size / 2}}),
                              nn::Activation("relu"));
}

nn::HybridSequential fire(int64_t squeezed) {
  nn::HybridConcurrent expanded(1);
  expanded.add(conv(4 * squeezed, 1), conv(4 * squeezed, 3));
  return nn::HybridSequential(conv(squeezed, 1), expanded);
}

// Channels inside of each fire; 0: a pooling.
constexpr int64_t fires[2][10] = {{16, 16, 32, 0, 32, 48, 48, 64, 0, 64}, {16, 16, 0, 32, 32, 0, 48, 48, 64, 64}};

}  // namespace

Model squeezenet(int minor_version, const ModelOptions& options) {
  const nn::MaxPoolOptions pool{.pool_size = 3, .strides = 2, .ceil_mode = true};
  nn::HybridSequential features;
  features.add(minor_version == 0 ? nn::Conv2D(96, {.kernel_size = 7, .strides = 2})
                                  : nn::Conv2D(64, {.kernel_size = 3, .strides = 2}),
               nn::Activation("relu"), nn::MaxPool2D(pool));
  for (const int64_t squeezed : fires[minor_version]) {
    if (squeezed == 0) features.add(nn::MaxPool2D(pool));
    else features.add(fire(squeezed));
  }
  features.add(nn::Dropout(0.5));
  const nn::HybridSequential output(nn::Conv2D(options.classes, {.kernel_size = 1}), nn::Activation("relu"),
                                    nn::AvgPool2D({.pool_size = 13}), nn::Flatten());
  return Model("squeezenet", features, output);
}

}  // namespace kaon::gluon::model_zoo::vision::detail
