// The layers of gluon as ONNX models: written, read again and run, with the same results.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "kaon/interchange/onnx.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/files.h"

namespace onnx_layers_test {

using namespace kaon;
using namespace kaon::test;
namespace nn = gluon::nn;
namespace rnn = gluon::rnn;

namespace {

struct Layer {
  std::string name;
  std::function<std::pair<gluon::Block, NDArray>(const NDArray& x)> call;  // the block and what it makes
  Shape shape;
};

template <class Net>
Layer layer(std::string name, Net net, const Shape& shape) {
  return {std::move(name),
          [net](const NDArray& x) mutable {
            net.initialize(init::Uniform(0.5));
            net.hybridize();
            const NDArray y = net(x);
            return std::pair<gluon::Block, NDArray>(net, y);
          },
          shape};
}

std::vector<Layer> layers() {
  const Shape line{2, 4, 9}, image{2, 4, 8, 6}, volume{2, 4, 5, 6, 4}, last{2, 8, 6, 4};
  nn::HybridConcurrent both(1);
  both.add(nn::Conv2D(3, {.kernel_size = 1}), nn::Identity());
  return {
      layer("Dense", nn::Dense(3, {.activation = "relu"}), {2, 5}),
      layer("Dense of rows", nn::Dense(3, {.flatten = false}), {2, 4, 5}),
      layer("Conv1D", nn::Conv1D(3, {.kernel_size = 3, .padding = 1}), line),
      layer("Conv2D", nn::Conv2D(6, {.kernel_size = {3, 2}, .strides = 2, .groups = 2}), image),
      layer("Conv2D NHWC", nn::Conv2D(6, {.kernel_size = 3, .layout = ConvLayout::NHWC}), last),
      layer("Conv3D", nn::Conv3D(3, {.kernel_size = 2, .dilation = 2}), volume),
      layer("Conv1DTranspose", nn::Conv1DTranspose(3, {.kernel_size = 3, .strides = 2, .output_padding = 1}), line),
      layer("Conv2DTranspose", nn::Conv2DTranspose(3, {.kernel_size = 3, .strides = 2, .padding = 1}), image),
      layer("Conv2DTranspose NHWC", nn::Conv2DTranspose(3, {.kernel_size = 3, .layout = ConvLayout::NHWC}), last),
      layer("Conv3DTranspose", nn::Conv3DTranspose(3, {.kernel_size = 2}), volume),
      layer("MaxPool1D", nn::MaxPool1D({.pool_size = 3, .ceil_mode = true}), line),
      layer("MaxPool2D", nn::MaxPool2D({.pool_size = 3, .strides = 2, .padding = 1}), image),
      layer("MaxPool2D NHWC", nn::MaxPool2D({.layout = ConvLayout::NHWC}), last),
      layer("MaxPool3D", nn::MaxPool3D(), volume),
      layer("AvgPool1D", nn::AvgPool1D({.pool_size = 2, .ceil_mode = true}), line),
      layer("AvgPool2D", nn::AvgPool2D({.pool_size = 3, .strides = 2, .padding = 1, .ceil_mode = true}), image),
      layer("AvgPool2D of pixels", nn::AvgPool2D({.pool_size = 3, .padding = 1, .count_include_pad = false}), image),
      layer("AvgPool3D", nn::AvgPool3D(), volume),
      layer("GlobalMaxPool1D", nn::GlobalMaxPool1D(), line),
      layer("GlobalMaxPool2D", nn::GlobalMaxPool2D(), image),
      layer("GlobalMaxPool3D", nn::GlobalMaxPool3D(), volume),
      layer("GlobalAvgPool1D", nn::GlobalAvgPool1D(), line),
      layer("GlobalAvgPool2D NHWC", nn::GlobalAvgPool2D({.layout = ConvLayout::NHWC}), last),
      layer("GlobalAvgPool3D", nn::GlobalAvgPool3D(), volume),
      layer("AdaptiveAvgPool2D", nn::AdaptiveAvgPool2D({3, 4}), image),
      layer("BatchNorm", nn::BatchNorm(), image),
      layer("BatchNorm of the last axis", nn::BatchNorm({.axis = -1}), last),
      layer("BatchNormReLU", nn::BatchNormReLU(), image),
      layer("SyncBatchNorm", nn::SyncBatchNorm(), image),
      layer("LayerNorm", nn::LayerNorm(), line),
      layer("LayerNorm of axis 1", nn::LayerNorm({.axis = 1}), line),
      layer("GroupNorm", nn::GroupNorm({.num_groups = 2}), image),
      layer("InstanceNorm", nn::InstanceNorm(), image),
      layer("InstanceNorm of the last axis", nn::InstanceNorm({.axis = -1}), last),
      layer("RMSNorm", nn::RMSNorm(), line),
      layer("Activation", nn::Activation("softsign"), line),
      layer("LeakyReLU", nn::LeakyReLU(0.1), line),
      layer("PReLU", nn::PReLU(), line),
      layer("ELU", nn::ELU(), line),
      layer("SELU", nn::SELU(), line),
      layer("GELU", nn::GELU(), line),
      layer("Swish", nn::Swish(1.5), line),
      layer("Dropout", nn::Dropout(0.5), line),
      layer("Flatten", nn::Flatten(), image),
      layer("Identity", nn::Identity(), line),
      layer("HybridConcurrent", both, image),
      layer("PixelShuffle1D", nn::PixelShuffle1D(2), line),
      layer("PixelShuffle2D", nn::PixelShuffle2D({2, 2}), image),
      layer("PixelShuffle3D", nn::PixelShuffle3D({2, 2, 1}), volume),
      layer("ReflectionPad2D", nn::ReflectionPad2D(1), image),
      layer("RNN", rnn::RNN(3, {.num_layers = 2}), {5, 2, 4}),
      layer("LSTM", rnn::LSTM(3, {.num_layers = 2, .bidirectional = true}), {5, 2, 4}),
      layer("LSTM with a projection", rnn::LSTM(4, {.projection_size = 3}), {5, 2, 4}),
      layer("GRU", rnn::GRU(3, {.bidirectional = true}), {5, 2, 4}),
  };
}

struct Named : gluon::HybridBlock<Named> {
  auto hybrid_forward(auto F, auto x) { return F.gamma(F.relu(x)); }
};

}  // namespace

TEST_CASE("onnx layers: each is read again with the same results") {
  const ScratchFolder folder;
  for (const Layer& l : layers()) {
    const NDArray x = nd.random_normal(l.shape);
    const auto [net, y] = l.call(x);
    const auto want = y.asvector<float>();
    for (int64_t opset : {17, 24}) {
      INFO(l.name << ", opset " << opset);
      onnx::save(net, folder / "layer.onnx", {.opset = opset});
      const NDArray back = onnx::load(folder / "layer.onnx")(x);
      CHECK(back.shape() == y.shape());
      const auto got = back.asvector<float>();
      for (size_t i = 0; i < want.size() && i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(2e-5));
    }
  }
}

TEST_CASE("onnx layers: what is refused names node, operator and reason") {
  const ScratchFolder folder;
  Named net;
  net.hybridize();
  net(nd.random_normal({3, 3}));
  CHECK_THROWS_WITH(onnx::save(net, folder / "net.onnx"), Catch::Contains("the operator gamma") &&
                                                              Catch::Contains("node ") &&
                                                              Catch::Contains("no gamma function"));
  CHECK(!std::filesystem::exists(folder / "net.onnx"));
}

}  // namespace onnx_layers_test
