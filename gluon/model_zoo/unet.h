// A U-Net (Ronneberger et al. 2015): a score for each class at each pixel.
#pragma once

#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/nn.h"

namespace KAON_API kaon {
namespace gluon::model_zoo::vision {

struct UNetOptions {
  int64_t classes = 2;
  int64_t channels = 64;  // of the first level; each level below has twice as many
  int depth = 4;          // how often the image is halved
};

// Images (batch, any, height, width) to (batch, classes, height, width). Each level is two 3x3 convolutions with
// padding, each followed by BatchNorm and relu; maps go down by 2x2 pooling and up by 2x2 transposed convolutions,
// beside which stand those that went down. Throws ShapeError for sides that are no multiples of 2^depth.
struct UNet : HybridBlock<UNet> {
  explicit UNet(const UNetOptions& options = {});

  auto hybrid_forward(auto F, auto x) {
    std::vector<decltype(x)> maps;
    for (size_t i = 0; i < up.size(); ++i) {
      maps.push_back(down[i](x));
      x = pool(maps.back());
    }
    x = down.back()(x);
    for (size_t i = up.size(); i-- > 0;) x = across[i](F.concat({.dim = 1}, maps[i], up[i](x)));
    return output(x);
  }

  std::vector<nn::HybridSequential> down, across;  // from the first level on; down has the lowest one too
  std::vector<nn::Conv2DTranspose> up;             // to each level from the one below
  nn::MaxPool2D pool;
  nn::Conv2D output;
};

}  // namespace gluon::model_zoo::vision
}  // namespace kaon
