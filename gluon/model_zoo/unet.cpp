#include "kaon/gluon/model_zoo/unet.h"

#include <fmt/format.h>

namespace kaon::gluon::model_zoo::vision {
namespace {

nn::HybridSequential level(int64_t channels) {
  const nn::ConvOptions window{.kernel_size = {3, 3}, .padding = {1, 1}, .use_bias = false};
  return nn::HybridSequential(nn::Conv2D(channels, window), nn::BatchNormReLU(), nn::Conv2D(channels, window),
                              nn::BatchNormReLU());
}

}  // namespace

UNet::UNet(const UNetOptions& o)
    : HybridBlock("unet"),
      pool(child("pool", nn::MaxPool2D())),
      output(child("output", nn::Conv2D(o.classes, {.kernel_size = {1, 1}}))) {
  if (o.depth < 0 || o.depth > 16) throw ValueError(fmt::format("[UNet] depth must be from 0 to 16, got {}", o.depth));
  for (int i = 0; i <= o.depth; ++i) {
    const int64_t channels = o.channels << i;
    down.push_back(child(fmt::format("down{}", i), level(channels)));
    if (i == o.depth) break;
    up.push_back(
        child(fmt::format("up{}", i), nn::Conv2DTranspose(channels, {.kernel_size = {2, 2}, .strides = {2, 2}})));
    across.push_back(child(fmt::format("across{}", i), level(channels)));
  }
}

}  // namespace kaon::gluon::model_zoo::vision
