// MobileNet (Howard et al. 2017) and MobileNetV2 (Sandler et al. 2018): convolutions of single channels, then 1x1 ones.
#include "kaon/gluon/model_zoo/internal/families.h"

namespace kaon::gluon::model_zoo::vision::detail {
namespace {

// min(max(x, 0), 6)
struct Relu6 : HybridBlock<Relu6> {
  Relu6() : HybridBlock("relu6") {}
  auto hybrid_forward(auto F, auto x) { return F.as("fwd").clip(x, 0, 6); }
};

struct ConvOptions {
  int64_t channels;
  int64_t kernel_size = 1;
  int64_t stride = 1;
  int64_t groups = 1;
};

void add_conv(nn::HybridSequential& net, const ConvOptions& c) {
  net.add(nn::Conv2D(c.channels, {.kernel_size = {c.kernel_size},
                                  .strides = {c.stride},
                                  .padding = {c.kernel_size / 2},
                                  .groups = int(c.groups),
                                  .use_bias = false}),
          nn::BatchNorm());
}

// 1x1 to `expansion` times as many channels, 3x3 of single channels, 1x1 without an activation; the input is added
// where the shape stays.
struct LinearBottleneck : HybridBlock<LinearBottleneck> {
  LinearBottleneck(int64_t in_channels, int64_t channels, int64_t expansion, int64_t stride)
      : HybridBlock("linearbottleneck"),
        out(child("out", nn::HybridSequential())),
        adds_input(stride == 1 && in_channels == channels) {
    const int64_t inside = in_channels * expansion;
    add_conv(out, {.channels = inside});
    out.add(Relu6());
    add_conv(out, {.channels = inside, .kernel_size = 3, .stride = stride, .groups = inside});
    out.add(Relu6());
    add_conv(out, {.channels = channels});
  }
  auto hybrid_forward(auto F, auto x) {
    auto y = out(x);
    return adds_input ? F.elemwise_add(y, x) : y;
  }

  nn::HybridSequential out;
  const bool adds_input;
};

// Pairs of convolutions: channels of the second one, and stride of the first.
struct Pair {
  int64_t channels, stride;
};
constexpr Pair pairs[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                          {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};

// `count` bottlenecks, the first with the stride.
struct Group {
  int64_t channels;
  int count;
  int64_t stride, expansion;
};
constexpr Group groups[] = {{16, 1, 1, 1}, {24, 2, 2, 6},  {32, 3, 2, 6}, {64, 4, 2, 6},
                            {96, 3, 1, 6}, {160, 3, 2, 6}, {320, 1, 1, 6}};

}  // namespace

Model mobilenet(int quarters, const ModelOptions& options) {
  int64_t channels = 32 * quarters / 4;
  nn::HybridSequential features;
  add_conv(features, {.channels = channels, .kernel_size = 3, .stride = 2});
  features.add(nn::Activation("relu"));
  for (const Pair& p : pairs) {
    add_conv(features, {.channels = channels, .kernel_size = 3, .stride = p.stride, .groups = channels});
    features.add(nn::Activation("relu"));
    channels = p.channels * quarters / 4;
    add_conv(features, {.channels = channels});
    features.add(nn::Activation("relu"));
  }
  features.add(nn::GlobalAvgPool2D(), nn::Flatten());
  return Model("mobilenet", features, nn::Dense(options.classes));
}

Model mobilenet_v2(int quarters, const ModelOptions& options) {
  int64_t channels = 32 * quarters / 4;
  nn::HybridSequential features;
  add_conv(features, {.channels = channels, .kernel_size = 3, .stride = 2});
  features.add(Relu6());
  for (const Group& g : groups) {
    for (int i = 0; i < g.count; ++i) {
      const int64_t next = g.channels * quarters / 4;
      features.add(LinearBottleneck(channels, next, g.expansion, i == 0 ? g.stride : 1));
      channels = next;
    }
  }
  add_conv(features, {.channels = 1280});  // for every width
  features.add(Relu6(), nn::GlobalAvgPool2D());
  const nn::HybridSequential output(nn::Conv2D(options.classes, {.kernel_size = 1, .use_bias = false}), nn::Flatten());
  return Model("mobilenetv2", features, output);
}

}  // namespace kaon::gluon::model_zoo::vision::detail
