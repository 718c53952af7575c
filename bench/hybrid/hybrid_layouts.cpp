// A net with the channels last beside its twin with the channels second: predicting, training, and one convolution.
#include "kaon/bench/hybrid/hybrid_parts.h"

namespace kaon::bench {
namespace {

namespace nn = gluon::nn;

nn::HybridSequential net_of(bool last) {
  const ConvLayout layout = last ? ConvLayout::NHWC : ConvLayout::NCHW;
  const int axis = last ? 3 : 1;
  const nn::ConvOptions options{.kernel_size = 3, .padding = 1, .use_bias = false, .layout = layout};
  return nn::HybridSequential(nn::Conv2D(64, options), nn::BatchNorm({.axis = axis}), nn::Activation("relu"),
                              nn::MaxPool2D({.pool_size = 2, .layout = layout}), nn::Conv2D(64, options),
                              nn::BatchNorm({.axis = axis}), nn::Activation("relu"),
                              nn::GlobalAvgPool2D({.layout = layout}), nn::Flatten(), nn::Dense(10));
}

}  // namespace

void layouts(int threads) {
  constexpr int64_t batch = 8, channels = 32, side = 56;
  constexpr int calls = 20;
  const NDArray second = nd.random_uniform({batch, channels, side, side}), last = nd.transpose(second, {0, 2, 3, 1});
  const auto ready = [](nn::HybridSequential net, const NDArray& x) {
    net.initialize(init::Xavier());
    hybridize(net);
    net(x);
    return net;
  };
  const nn::HybridSequential net_second = ready(net_of(false), second), net_last = ready(net_of(true), last);
  const auto train = [&](const nn::HybridSequential& net, const NDArray& x) {
    const auto step = [&] {
      const NDArray y = autograd::record([&] { return nd.sum(net(x)); });
      y.backward();
    };
    step();
    nd.waitall();
    return seconds([&] {
             for (int i = 0; i < calls; ++i) step();
             nd.waitall();
           }) /
           calls;
  };
  const NDArray weight = nd.random_normal({64, channels, 3, 3}), weight_last = nd.transpose(weight, {0, 2, 3, 1});
  const auto convolve = [&](const NDArray& x, const NDArray& w, ConvLayout layout) {
    const op::Convolution op{.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 64, .layout = layout};
    return seconds_per_loop(calls, [&] { nd.Convolution(x, w, op).wait_to_read(); });
  };
  const auto r =
      interleave(5, {[&] { return seconds_per_call(net_second, second, calls) * per_ms; },
                     [&] { return seconds_per_call(net_last, last, calls) * per_ms; },
                     [&] { return train(net_second, second) * per_ms; }, [&] { return train(net_last, last) * per_ms; },
                     [&] { return convolve(second, weight, ConvLayout::NCHW) * per_ms; },
                     [&] { return convolve(last, weight_last, ConvLayout::NHWC) * per_ms; }});
  const std::string t = on_threads(threads);
  const char* const names[] = {"layout_predict", "layout_train", "layout_convolution"};
  for (size_t i = 0; i < 3; ++i) {
    const std::string name = names[i];
    print(name + "_nchw" + t, r[2 * i], "ms");
    print(name + "_nhwc" + t, r[2 * i + 1], "ms", name + "_nchw", r[2 * i]);
  }
}

}  // namespace kaon::bench
