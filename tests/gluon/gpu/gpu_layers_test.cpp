// What plans make of dense and convolutional layers with all that follows them, on a GPU against the CPU. Run on the
// emulator (tests/cuda_emulator) where there is none.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kaon/engine/device/backend.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/skip.h"

namespace gpu_layers_test {

namespace nn = kaon::gluon::nn;
using namespace kaon;
using namespace kaon::engine;

namespace {

NDArray numbers(const Shape& shape, DType t) {
  std::vector<float> v(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = float(int(i * 37 % 101) - 50) / 32;
  return nd.array(v, shape).astype(t);
}

enum class Ending { relu, sigmoid, tanh, sum, sum_and_relu };

auto end(auto F, Ending ending, auto y, auto x) {
  switch (ending) {
    case Ending::relu: return F.relu(y);
    case Ending::sigmoid: return F.sigmoid(y);
    case Ending::tanh: return F.tanh(y);
    case Ending::sum: return y + x;
    case Ending::sum_and_relu: return F.relu(y + x);
  }
  return y;
}

struct DenseNet : gluon::HybridBlock<DenseNet> {
  DenseNet(Ending ending, bool bias) : ending(ending), dense(child("dense", nn::Dense(8, {.use_bias = bias}))) {}
  const Ending ending;
  nn::Dense dense;
  auto hybrid_forward(auto F, auto x) { return end(F, ending, dense(x), x); }
};

// With a batch normalisation, which plans fold into the layer as a scale and a bias of each channel.
struct ConvNet : gluon::HybridBlock<ConvNet> {
  ConvNet(Ending ending, bool bias, bool norm, int groups)
      : ending(ending),
        norm(norm),
        conv(child("conv", nn::Conv2D(4, {.kernel_size = 3, .padding = 1, .groups = groups, .use_bias = bias}))),
        bn(child("bn", nn::BatchNorm())) {}
  const Ending ending;
  const bool norm;
  nn::Conv2D conv;
  nn::BatchNorm bn;
  auto hybrid_forward(auto F, auto x) {
    auto y = conv(x);
    if (norm) y = bn(y);
    return end(F, ending, y, x);
  }
};

template <class Net>
void check(Net net, const NDArray& x) {
  random::seed(3);
  net.initialize(init::Normal(0.5));
  net.cast(x.dtype());
  const std::vector<double> want = net(x).template asvector<double>();
  net.collect_params().reset_ctx(gpu(0));
  net.hybridize();
  const double margin = x.dtype() == DType::float32 ? 1e-5 : 2e-2;
  for (int time = 0; time < 2; ++time) {
    const std::vector<double> got = net(x.as_in_context(gpu(0))).template asvector<double>();
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) REQUIRE(got[i] == Approx(want[i]).margin(margin));
  }
}

}  // namespace

TEST_CASE("gpu: plans fuse what follows a layer into it", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  for (DType t : {DType::float32, DType::float16}) {
    for (Ending ending : {Ending::relu, Ending::sigmoid, Ending::tanh, Ending::sum, Ending::sum_and_relu}) {
      for (bool bias : {false, true}) {
        CAPTURE(name_of(t), int(ending), bias);
        check(DenseNet(ending, bias), numbers({5, 8}, t));
        for (int groups : {1, 2}) {
          for (bool norm : {false, true}) {
            CAPTURE(groups, norm);
            check(ConvNet(ending, bias, norm, groups), numbers({2, 4, 5, 5}, t));
          }
        }
      }
    }
  }
}

TEST_CASE("gpu: NaN goes through a layer and the relu in it", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  for (DType t : {DType::float32, DType::float16, DType::bfloat16}) {
    for (int kernel : {0, 1, 3}) {  // 0: a dense layer
      for (const bool bias : {true, false}) {
        CAPTURE(name_of(t), kernel, bias);
        const Shape shape = kernel ? Shape(2, 8, 6, 6) : Shape(6, 8);
        std::vector<float> values = numbers(shape, DType::float32).asvector<float>();
        const size_t at = kernel ? 2 * 36 + 14 : 8;
        values[at] = std::numeric_limits<float>::quiet_NaN();
        const NDArray x = nd.array(values, shape).astype(t);
        nn::HybridSequential net;
        if (kernel) {
          net.add(nn::Conv2D(8, {.kernel_size = kernel, .padding = kernel / 2, .use_bias = bias}));
        } else {
          net.add(nn::Dense(8, {.use_bias = bias}));
        }
        net.add(nn::Activation("relu"));
        net.initialize(init::Normal(0.5));
        net.cast(t);
        net(x);
        net.collect_params().reset_ctx(gpu(0));
        net.hybridize();
        const std::vector<float> y = net(x.as_in_context(gpu(0))).asvector<float>();
        CHECK(std::isnan(y[kernel ? 14 : at]));
        CHECK(y[0] == y[0]);
      }
    }
  }
}

}  // namespace gpu_layers_test
