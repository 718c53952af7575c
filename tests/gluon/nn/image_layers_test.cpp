// Transposed and deformable convolutions, norms, containers side by side, and layers that resize, where no MXNet has
// written what they compute: modes, layouts, dtypes, sizes at the edge, errors. Values: tests/golden.
#include "kaon/gluon/nn/deformable_conv.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/tests/gluon/support.h"

namespace image_layers_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
namespace nn = kaon::gluon::nn;

namespace {

NDArray last(const NDArray& x) { return nd.moveaxis(x, 1, -1); }

// A net with the channels last and the parameters of `twin`.
template <class Layer>
void check_channels_last(Layer twin, Layer net, const Shape& shape) {
  twin.initialize(init::Uniform(0.5));
  const NDArray x = nd.random_normal(shape), y = twin(x);
  net.initialize();
  net(last(x));
  net.weight.set_data(last(twin.weight.data()));
  net.bias.set_data(twin.bias.data());
  require_close(net(last(x)), values(last(y)));
}

}  // namespace

TEST_CASE("nn: layers of images give the same imperatively and hybridized", "[gluon]") {
  check_hybrid(nn::Conv1DTranspose(4, {.kernel_size = 3, .strides = 2, .padding = 1, .activation = "silu"}), {3, 2, 5});
  check_hybrid(nn::Conv2DTranspose(4, {.kernel_size = {3, 2}, .strides = 2, .output_padding = 1, .groups = 2}),
               {3, 4, 3, 4});
  check_hybrid(nn::Conv3DTranspose(2, {.kernel_size = 2, .use_bias = false}), {2, 2, 2, 3, 2});
  check_hybrid(nn::DeformableConvolution(3, {.kernel_size = 3, .padding = 1}), {3, 2, 4, 5}, false);
  check_hybrid(nn::ModulatedDeformableConvolution(4, {.kernel_size = 2, .groups = 2, .num_deformable_group = 2}),
               {2, 4, 4, 3}, false);
  check_hybrid(nn::InstanceNorm({.scale = true}), {3, 4, 5, 2});
  check_hybrid(nn::GroupNorm({.num_groups = 2}), {3, 4, 5, 2});
  check_hybrid(nn::GroupNorm({.num_groups = 2, .num_channels = 6}), {3, 6, 5, 2});
  check_hybrid(nn::RMSNorm(), {3, 4, 6});
  check_hybrid(nn::RMSNorm({.axis = 1, .epsilon = 0.1, .in_channels = 4}), {3, 4, 6});
  check_hybrid(nn::BatchNormReLU(), {4, 3, 2, 2}, false);
  check_hybrid(nn::SyncBatchNorm(), {4, 3, 2, 2}, false);
  check_hybrid(nn::PixelShuffle1D(2), {3, 4, 5});
  check_hybrid(nn::PixelShuffle2D(2), {3, 8, 2, 3});
  check_hybrid(nn::PixelShuffle3D({1, 2, 2}), {2, 8, 2, 1, 3});
  check_hybrid(nn::ReflectionPad2D(1), {3, 2, 3, 4});
  check_hybrid(nn::Upsample(2), {3, 2, 3, 4});
  check_hybrid(nn::Upsample(3, {.mode = nn::UpsampleMode::bilinear}), {3, 2, 3, 4});
  check_hybrid(nn::AdaptiveAvgPool2D({2, 3}), {3, 2, 5, 7});
  nn::HybridConcurrent side(1);
  side.add(nn::Dense(3), nn::Identity(), nn::Dense(2, {.activation = "mish"}));
  check_hybrid(side, {4, 5});
}

TEST_CASE("nn: activations have the names of their functions", "[gluon]") {
  const NDArray x = nd.array({-4, -1.5, -0.25, 0, 0.5, 3}, {2, 3});
  const auto check = [&](const char* name, double (*f)(double)) {
    INFO(name);
    std::vector<double> expected;
    for (double v : values(x)) expected.push_back(f(v));
    require_close(nn::Activation(name)(x), expected, 1e-5, 1e-6);
    check_hybrid(nn::Activation(name), {3, 4});
  };
  static const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  check("silu", [](double v) { return v * sigmoid(v); });
  check("swish", [](double v) { return v * sigmoid(v); });
  check("mish", [](double v) { return v * std::tanh(std::log1p(std::exp(v))); });
  check("gelu", [](double v) { return v * std::erfc(-v / std::sqrt(2)) / 2; });
  check("hardswish", [](double v) { return v * std::min(1.0, std::max(0.0, v / 6 + 0.5)); });
  check("hard_sigmoid", [](double v) { return std::min(1.0, std::max(0.0, v / 5 + 0.5)); });
  check("log_sigmoid", [](double v) { return std::log(sigmoid(v)); });
  check("elu", [](double v) { return v > 0 ? v : std::expm1(v); });
  check("selu", [](double v) { return 1.0507009873554804 * (v > 0 ? v : 1.6732632423543772 * std::expm1(v)); });
  require_close(nn::Activation("softmax")(nd.array({0, 0, 1, 1}, {2, 2})), {0.5, 0.5, 0.5, 0.5});
  require_close(nn::Activation("log_softmax")(nd.array({0, 0}, {1, 2})), {-std::log(2), -std::log(2)});
  CHECK_THROWS_WITH(nn::Activation("swoosh"), Contains("'swoosh'") && Contains("log_softmax"));
  CHECK_THROWS_AS(nn::Activation(nn::ActivationName()), ValueError);
}

TEST_CASE("nn: transposed convolutions take the channels last", "[gluon]") {
  check_channels_last(nn::Conv1DTranspose(4, {.kernel_size = 3, .strides = 2, .groups = 2}),
                      nn::Conv1DTranspose(4, {.kernel_size = 3, .strides = 2, .groups = 2, .layout = ConvLayout::NWC}),
                      {2, 6, 5});
  check_channels_last(
      nn::Conv2DTranspose(3, {.kernel_size = {3, 2}, .strides = 2, .padding = 1, .output_padding = {1, 0}}),
      nn::Conv2DTranspose(
          3, {.kernel_size = {3, 2}, .strides = 2, .padding = 1, .output_padding = {1, 0}, .layout = ConvLayout::NHWC}),
      {2, 4, 3, 5});
  check_channels_last(nn::Conv3DTranspose(2, {.kernel_size = 2}),
                      nn::Conv3DTranspose(2, {.kernel_size = 2, .layout = ConvLayout::NDHWC}), {1, 3, 2, 2, 3});
}

TEST_CASE("nn: deformable convolutions begin as plain ones", "[gluon]") {
  nn::Conv2D plain(4, {.kernel_size = 3, .padding = 1});
  plain.initialize(init::Uniform(0.5));
  const NDArray x = nd.random_normal({2, 3, 5, 4}), y = plain(x);
  const auto check = [&](auto net) {
    net.initialize();
    net(x);
    net.deformable_conv_weight.set_data(plain.weight.data());
    net.deformable_conv_bias.set_data(plain.bias.data());
    require_close(net(x), values(y), 1e-4, 1e-5);
  };
  check(nn::DeformableConvolution(4, {.kernel_size = 3, .padding = 1}));
  check(nn::ModulatedDeformableConvolution(4, {.kernel_size = 3, .padding = 1}));
}

TEST_CASE("nn: RMSNorm, Upsample and AdaptiveAvgPool2D by hand", "[gluon]") {
  nn::RMSNorm norm({.epsilon = 0});
  norm.initialize();
  require_close(norm(nd.array({3, 4, 0, 0, 6, 8, 0, 0}, {2, 4})), {1.2, 1.6, 0, 0, 1.2, 1.6, 0, 0});
  const NDArray x = nd.array({0, 1, 2, 3}, {1, 1, 2, 2});
  require_close(nn::Upsample(2)(x), {0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3});
  require_close(
      nn::Upsample(2, {.mode = nn::UpsampleMode::bilinear, .align_corners = true})(x),
      {0, 1 / 3.0, 2 / 3.0, 1, 2 / 3.0, 1, 4 / 3.0, 5 / 3.0, 4 / 3.0, 5 / 3.0, 2, 7 / 3.0, 2, 7 / 3.0, 8 / 3.0, 3});
  require_close(nn::AdaptiveAvgPool2D()(x), {1.5});
  require_close(nn::ReflectionPad2D(1)(x), {3, 2, 3, 2, 1, 0, 1, 0, 3, 2, 3, 2, 1, 0, 1, 0});
}

TEST_CASE("nn: layers of images in 16 bits and of no samples", "[gluon]") {
  const auto check = [](auto net, const Shape& shape, const Shape& result) {
    INFO(net.class_name());
    net.initialize(init::Uniform(0.5));
    net(nd.random_normal(shape));
    Shape none = shape, expected = result;
    none[0] = expected[0] = 0;
    CHECK(net(nd.zeros(none)).shape() == expected);
    net.cast(DType::float16);
    const NDArray y = net(nd.cast(nd.random_normal(shape), DType::float16));
    CHECK(y.dtype() == DType::float16);
    CHECK(y.shape() == result);
  };
  check(nn::Conv2DTranspose(4, {.kernel_size = 2, .strides = 2}), {2, 3, 4, 5}, {2, 4, 8, 10});
  check(nn::InstanceNorm(), {2, 3, 4, 5}, {2, 3, 4, 5});
  check(nn::GroupNorm(), {2, 3, 4, 5}, {2, 3, 4, 5});
  check(nn::RMSNorm(), {2, 3, 4}, {2, 3, 4});
  check(nn::BatchNormReLU(), {2, 3, 4, 5}, {2, 3, 4, 5});
  check(nn::PixelShuffle2D(2), {2, 8, 3, 4}, {2, 2, 6, 8});
  check(nn::Upsample(2), {2, 3, 4, 5}, {2, 3, 8, 10});
  check(nn::DeformableConvolution(4, {.kernel_size = 3}), {2, 3, 4, 5}, {2, 4, 2, 3});
}

// The numbers are PyTorch's, of nn.GroupNorm(2, 4) and of the sum of its result times h.
TEST_CASE("nn: groups with weights for each channel are PyTorch's", "[gluon]") {
  std::vector<double> x(24), h(24);
  for (int i = 0; i < 24; ++i) x[size_t(i)] = i * 7 % 11 / 4.0 - 1, h[size_t(i)] = i * 5 % 7 - 3;
  nn::GroupNorm net({.num_groups = 2, .num_channels = 4});
  net.initialize();
  net.gamma.set_data(nd.array({1, -2, 0.5, 3}));
  net.beta.set_data(nd.array({0, 1, -1, 0.25}));
  for (bool hybrid : {false, true}) {
    if (hybrid) net.hybridize();
    NDArray data = nd.array(x, {2, 4, 3});
    data.attach_grad();
    const NDArray y = autograd::record([&] { return net(data); });
    y.backward(nd.array(h, {2, 4, 3}));
    require_close(y, {-1.39304209,  0.696521103,  -0.497515023, -2.18409634,  0.203975916,  2.59204817,
                      -0.319020033, -0.924335539, -1.52965105,  3.42790651,   -0.203986585, -3.8358798,
                      0.286296427,  -1.08792663,  1.31696367,   1.11451864,   3.86296463,   -0.946815848,
                      -0.856851816, -1.54396331,  -0.341518164, 0.0782221258, -4.04444695,  3.17022395},
                  1e-5, 1e-5);
    require_close(data.grad(), {0.502396941, 1.83836484,   2.09841418,  2.24034595,  -7.05189371, 0.37237227,
                                2.65070486,  -1.81287193,  -2.03924036, 2.44278407,  -8.07394791, 6.83257151,
                                1.95995939,  -0.301885724, -3.9018836,  -4.78950548, 1.19398749,  5.83932781,
                                2.98498154,  -1.17367983,  2.32486486,  -12.1404705, 5.68843746,  2.31586647},
                  1e-5, 1e-5);
    require_close(net.gamma.grad(), {2.99550033, -4.84741879, -5.48055172, -6.47440863}, 1e-5, 1e-5);
    require_close(net.beta.grad(), {-4, 2, 1, 0}, 1e-5, 1e-5);
  }
  CHECK(net(nd.zeros({0, 4, 3})).shape() == Shape(0, 4, 3));
  CHECK_THROWS_AS(net(nd.zeros({2, 6, 3})), ShapeError);
}

TEST_CASE("nn: what layers of images cannot do", "[gluon]") {
  CHECK_THROWS_WITH(nn::Conv2DTranspose(4), Contains("kernel_size"));
  CHECK_THROWS_WITH(nn::Conv2DTranspose(4, {.kernel_size = {3, 3, 3}}), Contains("kernel_size"));
  CHECK_THROWS_WITH(nn::Conv2DTranspose(4, {.kernel_size = 3, .output_padding = -1}), Contains("output_padding"));
  CHECK_THROWS_WITH(nn::Conv2DTranspose(4, {.kernel_size = 3, .groups = 3}), Contains("groups must divide"));
  CHECK_THROWS_WITH(nn::Conv1DTranspose(4, {.kernel_size = 3, .layout = ConvLayout::NCHW}), Contains("NCW or NWC"));
  CHECK_THROWS_WITH(nn::DeformableConvolution(4, {.num_deformable_group = 0}), Contains("num_deformable_group"));
  CHECK_THROWS_WITH(nn::GroupNorm({.num_groups = 0}), Contains("num_groups"));
  CHECK_THROWS_WITH(nn::GroupNorm({.num_groups = 2, .num_channels = 5}), Contains("must divide num_channels, got 5"));
  CHECK_THROWS_WITH(nn::InstanceNorm({.in_channels = -1}), Contains("in_channels"));
  CHECK_THROWS_WITH(nn::PixelShuffle2D({2, 0}), Contains("factor"));
  CHECK_THROWS_WITH(nn::ReflectionPad2D(-1), Contains("padding"));
  CHECK_THROWS_WITH(nn::Upsample(0), Contains("scale"));
  CHECK_THROWS_WITH(nn::AdaptiveAvgPool2D({1, 2, 3}), Contains("output_size"));
  CHECK_THROWS_AS(nn::PixelShuffle2D(2)(nd.zeros({1, 3, 2, 2})), ShapeError);
  nn::Conv2DTranspose wide(4, {.kernel_size = 3, .strides = 2, .output_padding = 2});
  wide.initialize();
  CHECK_THROWS_AS(wide(nd.zeros({1, 2, 3, 3})), Error);
  CHECK_THROWS_WITH(nn::Concurrent()(nd.zeros({1, 2})), Contains("no blocks"));
  CHECK_THROWS_WITH(nn::HybridConcurrent().add(nn::Lambda([](const NDArray& x) { return x; })),
                    Contains("must be HybridBlocks"));
  nn::HybridConcurrent side(1);
  side.add(nn::Dense(2), nn::Identity());
  side.initialize();
  CHECK_THROWS_AS(side(nd.zeros({2, 3, 4})), ShapeError);
}

}  // namespace image_layers_test
