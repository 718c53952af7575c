#include "kaon/gluon/nn/nn.h"

#include "kaon/tests/gluon/support.h"

namespace nn_test {

using namespace kaon;
using namespace kaon::test;
namespace nn = kaon::gluon::nn;

TEST_CASE("nn: every layer gives the same imperatively and hybridized", "[gluon]") {
  SECTION("Dense") { check_hybrid(nn::Dense(5, {.activation = "tanh"}), {4, 3, 2}); }
  SECTION("Dense without flatten") { check_hybrid(nn::Dense(5, {.use_bias = false, .flatten = false}), {4, 3, 7}); }
  SECTION("Conv1D") { check_hybrid(nn::Conv1D(4, {.kernel_size = 3, .strides = 2, .padding = 1}), {3, 2, 9}); }
  SECTION("Conv2D") {
    check_hybrid(nn::Conv2D(4, {.kernel_size = {3, 2}, .padding = 1, .activation = "relu"}), {3, 2, 6, 5});
  }
  SECTION("Conv2D grouped") {
    check_hybrid(nn::Conv2D(6, {.kernel_size = 3, .dilation = 2, .groups = 2, .use_bias = false, .in_channels = 4}),
                 {3, 4, 7, 8});
  }
  SECTION("Conv3D") {
    check_hybrid(nn::Conv3D(2, {.kernel_size = {1, 2, 3}, .strides = 2, .padding = 1}), {3, 2, 3, 4, 5});
  }
  SECTION("MaxPool1D") { check_hybrid(nn::MaxPool1D({.pool_size = 3, .strides = 2, .padding = 1}), {3, 2, 9}); }
  SECTION("AvgPool1D") { check_hybrid(nn::AvgPool1D({.ceil_mode = true}), {3, 2, 9}); }
  SECTION("MaxPool3D") { check_hybrid(nn::MaxPool3D(), {2, 2, 4, 5, 6}); }
  SECTION("AvgPool3D") { check_hybrid(nn::AvgPool3D({.pool_size = {1, 2, 3}, .padding = {0, 1, 1}}), {2, 2, 3, 4, 6}); }
  SECTION("Global pools along one and three axes") {
    check_hybrid(nn::GlobalMaxPool1D(), {2, 3, 5});
    check_hybrid(nn::GlobalAvgPool1D(), {2, 3, 5});
    check_hybrid(nn::GlobalMaxPool3D(), {2, 3, 2, 3, 4});
    check_hybrid(nn::GlobalAvgPool3D(), {2, 3, 2, 3, 4});
  }
  SECTION("MaxPool2D") { check_hybrid(nn::MaxPool2D({.pool_size = 3}), {2, 2, 10, 10}); }
  SECTION("AvgPool2D") {
    check_hybrid(nn::AvgPool2D({.pool_size = 3, .strides = 2, .padding = 1, .count_include_pad = false}), {2, 2, 7, 8});
  }
  SECTION("GlobalMaxPool2D") { check_hybrid(nn::GlobalMaxPool2D(), {2, 3, 5, 4}); }
  SECTION("GlobalAvgPool2D") { check_hybrid(nn::GlobalAvgPool2D(), {2, 3, 5, 4}); }
  SECTION("LayerNorm") { check_hybrid(nn::LayerNorm(), {4, 10}); }
  SECTION("BatchNorm in prediction") { check_hybrid(nn::BatchNorm(), {4, 3, 5, 5}, false); }
  SECTION("Dropout in prediction") { check_hybrid(nn::Dropout(0.5), {4, 5}, false); }
  SECTION("Dropout with rate 0") { check_hybrid(nn::Dropout(0), {4, 5}); }
  SECTION("Flatten") { check_hybrid(nn::Flatten(), {3, 4, 5, 6}); }
  SECTION("Activation") {
    for (const char* name : {"relu", "sigmoid", "tanh", "softrelu", "softsign"})
      check_hybrid(nn::Activation(name), {3, 4});
  }
  SECTION("LeakyReLU") { check_hybrid(nn::LeakyReLU(0.1), {3, 4}); }
  SECTION("PReLU") { check_hybrid(nn::PReLU({.in_channels = 4}), {3, 4}); }
  SECTION("ELU") { check_hybrid(nn::ELU(0.5), {3, 4}); }
  SECTION("SELU") { check_hybrid(nn::SELU(), {3, 4}); }
  SECTION("GELU") { check_hybrid(nn::GELU(), {3, 4}); }
  SECTION("Swish") { check_hybrid(nn::Swish(1.5), {3, 4}); }
  SECTION("Identity") { check_hybrid(nn::Identity(), {3, 4}); }
  SECTION("HybridLambda") {
    check_hybrid(nn::HybridLambda([](auto F, auto x) { return F.tanh(x) * 2; }), {3, 4});
  }
}

TEST_CASE("nn: Dense infers its input and names its nodes", "[gluon]") {
  nn::Dense dense(3, {.activation = "relu"});
  dense.initialize(init::One());
  require_close(dense(nd.array({1, 2, 3, 4, -5, -6, -7, -8}, {2, 2, 2})), {10, 10, 10, 0, 0, 0});
  CHECK(dense.weight.shape() == Shape(3, 4));
  CHECK(dense.bias.shape() == Shape(3));
  nn::HybridSequential net(nn::Dense(128, {.activation = "tanh", .flatten = false, .in_units = 10}), nn::Dropout(0.5),
                           nn::Dense(64, {.in_units = 256}));
  Symbol y = net(sym.var("data"));
  CHECK(y.list_outputs() == std::vector<std::string>{"dense1_fwd_output"});
  CHECK(y.list_arguments() ==
        std::vector<std::string>{"data", "dense0_weight", "dense0_bias", "dense1_weight", "dense1_bias"});
  auto names = y.get_internals().list_outputs();
  CHECK(std::find(names.begin(), names.end(), "dense0_tanh_fwd_output") != names.end());
  CHECK(std::find(names.begin(), names.end(), "dropout0_fwd_output") != names.end());
  net.initialize();
  CHECK(net(nd.zeros({32, 2, 10})).shape() == Shape(32, 64));
}

TEST_CASE("nn: convolution against hand computation", "[gluon]") {
  nn::Conv2D conv(1, {.kernel_size = 2, .bias_initializer = init::Constant(0.5)});
  conv.initialize(init::One());
  NDArray x = nd.reshape(nd.arange(9), {1, 1, 3, 3});
  require_close(conv(x), {8.5, 12.5, 20.5, 24.5});
  CHECK(conv.weight.shape() == Shape(1, 1, 2, 2));
  CHECK_THROWS_AS(nn::Conv2D(4), ValueError);
  CHECK_THROWS_AS(nn::Conv2D(4, {.kernel_size = {1, 2, 3}}), ValueError);
  CHECK_THROWS_AS(nn::Conv2D(4, {.kernel_size = 3, .strides = 0}), ValueError);
  CHECK_THROWS_AS(nn::Conv2D(4, {.kernel_size = 3, .groups = 3}), ValueError);
  CHECK_THROWS_AS(nn::Dense(0), ValueError);
}

TEST_CASE("nn: pooling sizes", "[gluon]") {
  NDArray x = nd.random_normal({2, 2, 10, 10});
  CHECK(nn::MaxPool2D({.pool_size = 3})(x).shape() == Shape(2, 2, 3, 3));
  CHECK(nn::MaxPool2D({.pool_size = 3, .ceil_mode = true})(x).shape() == Shape(2, 2, 4, 4));
  CHECK(nn::GlobalAvgPool2D()(x).shape() == Shape(2, 2, 1, 1));
  require_close(nn::AvgPool2D({.pool_size = 2})(nd.reshape(nd.arange(4), {1, 1, 2, 2})), {1.5});
  NDArray row = nd.reshape(nd.arange(5), {1, 1, 5});
  require_close(nn::MaxPool1D()(row), {1, 3});
  require_close(nn::MaxPool1D({.ceil_mode = true})(row), {1, 3, 4});
  require_close(nn::AvgPool1D({.pool_size = 3, .strides = 2, .padding = 1})(row), {1.0 / 3, 2, 7.0 / 3});
  require_close(nn::AvgPool1D({.pool_size = 3, .strides = 2, .padding = 1, .count_include_pad = false})(row),
                {0.5, 2, 3.5});
  require_close(nn::GlobalAvgPool1D()(row), {2});
  NDArray cube = nd.reshape(nd.arange(8), {1, 1, 2, 2, 2});
  require_close(nn::MaxPool3D()(cube), {7});
  require_close(nn::AvgPool3D({.pool_size = {2, 1, 2}, .strides = 1})(cube), {2.5, 4.5});
  CHECK(nn::GlobalMaxPool3D()(cube).shape() == Shape(1, 1, 1, 1, 1));
  CHECK_THROWS_AS(nn::MaxPool1D({.pool_size = {2, 2}}), ValueError);
  CHECK_THROWS_AS(nn::AvgPool3D({.strides = {0, 1, 1}}), ValueError);
  CHECK_THROWS_AS(nn::MaxPool1D()(cube), Error);  // data of another number of axes
}

TEST_CASE("nn: BatchNorm uses the batch in training and running statistics else", "[gluon]") {
  nn::BatchNorm bn({.momentum = 0.5});
  bn.initialize();
  NDArray x = nd.array({1, 2, 3, 4, 5, 8}, {3, 2});  // means 3, 14/3; variances 8/3, 56/9
  NDArray y = autograd::train_mode([&] { return bn(x); });
  double s0 = std::sqrt(8.0 / 3 + 1e-5), s1 = std::sqrt(56.0 / 9 + 1e-5);
  require_close(y, {-2 / s0, (2 - 14.0 / 3) / s1, 0, (4 - 14.0 / 3) / s1, 2 / s0, (8 - 14.0 / 3) / s1}, 1e-4, 1e-5);
  require_close(bn.running_mean.data(), {1.5, 7.0 / 3}, 1e-5);
  require_close(bn.running_var.data(), {0.5 + 4.0 / 3, 0.5 + 28.0 / 9}, 1e-5);
  y = bn(x);
  double m0 = 1.5, r0 = std::sqrt(0.5 + 4.0 / 3 + 1e-5);
  CHECK(values(y)[0] == Approx((1 - m0) / r0).epsilon(1e-4));
  CHECK(bn.gamma.grad_req() == GradReq::write);
  CHECK(bn.running_mean.grad_req() == GradReq::null);
  CHECK(nn::BatchNorm({.center = false, .scale = false}).gamma.grad_req() == GradReq::null);
}

TEST_CASE("nn: BatchNorm hybridized in training keeps the same running statistics", "[gluon]") {
  nn::BatchNorm a, b;
  a.initialize();
  b.initialize();
  b.hybridize();
  for (int i = 0; i < 3; ++i) {
    NDArray x = nd.random_normal({4, 3, 5, 5});
    NDArray ya = autograd::record([&] { return a(x); }), yb = autograd::record([&] { return b(x); });
    require_close(yb, values(ya), 1e-4, 1e-5);
  }
  require_close(b.running_mean.data(), values(a.running_mean.data()));
  require_close(b.running_var.data(), values(a.running_var.data()));
}

TEST_CASE("nn: LayerNorm normalises each row and refuses other widths", "[gluon]") {
  for (bool hybrid : {false, true}) {
    nn::LayerNorm ln({.in_channels = 4});
    ln.initialize();
    ln.hybridize(hybrid);
    double s = std::sqrt(1.25 + 1e-5);
    require_close(ln(nd.array({1, 2, 3, 4}, {1, 4})), {-1.5 / s, -0.5 / s, 0.5 / s, 1.5 / s});
    CHECK_THROWS_AS(ln(nd.zeros({2, 11})), ShapeError);
  }
}

TEST_CASE("nn: Dropout zeroes, scales and shares along axes", "[gluon]") {
  nn::Dropout dropout(0.25, {.axes = {1}});
  NDArray y = autograd::train_mode([&] { return dropout(nd.ones({100, 50})); });
  auto v = y.asvector<float>();
  int zeros = 0;
  for (size_t i = 0; i < 100; ++i) {
    for (size_t j = 0; j < 50; ++j) REQUIRE(v[i * 50 + j] == v[i * 50]);
    zeros += v[i * 50] == 0;
    REQUIRE((v[i * 50] == 0 || std::abs(v[i * 50] - 4.0f / 3) < 1e-6f));
  }
  CHECK(zeros > 5);
  CHECK(zeros < 50);
  require_close(dropout(nd.ones({2, 2})), {1, 1, 1, 1});
  CHECK_THROWS_AS(nn::Dropout(1.5), ValueError);
}

TEST_CASE("nn: Embedding looks rows up and scatters gradients", "[gluon]") {
  nn::Embedding embedding(10, 100);
  embedding.initialize();
  for (bool hybrid : {false, true}) {
    embedding.hybridize(hybrid);
    NDArray y = autograd::record([&] { return embedding(nd.array({3, 4, 2, 0, 1})); });
    y.backward();
    CHECK(y.shape() == Shape(5, 100));
    require_close(y[0], values(embedding.weight.data()[3]));
    require_close(embedding.weight.grad().slice(0, 5), std::vector<double>(500, 1));
    require_close(embedding.weight.grad().slice(5, 10), std::vector<double>(500, 0));
  }
}

TEST_CASE("nn: values of the activations", "[gluon]") {
  NDArray x = nd.array({-0.1, 0.1, 1.0});
  auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  require_close(nn::Swish()(x), {-0.1 * sigmoid(-0.1), 0.1 * sigmoid(0.1), sigmoid(1)});
  require_close(nn::ELU()(x), {std::expm1(-0.1), 0.1, 1});
  constexpr double scale = 1.0507009873554805, alpha = 1.6732632423543772;
  require_close(nn::SELU()(x), {scale * alpha * std::expm1(-0.1), scale * 0.1, scale});
  auto gelu = [](double v) { return v * 0.5 * (1 + std::erf(v / std::sqrt(2))); };
  require_close(nn::GELU()(x), {gelu(-0.1), gelu(0.1), gelu(1)});
  require_close(nn::LeakyReLU(0.5)(x), {-0.05, 0.1, 1});
  nn::PReLU prelu;
  prelu.initialize();
  require_close(prelu(x), {-0.025, 0.1, 1});
  nn::PReLU per_channel({.in_channels = 3});
  per_channel.initialize();
  per_channel.alpha.set_data(nd.array({0.1, 0.25, 0.5}));
  require_close(per_channel(nd.array({-1, -1, -1}, {1, 3})), {-0.1, -0.25, -0.5});
  CHECK_THROWS_AS(nn::Activation("swoosh"), ValueError);
  CHECK(nn::Activation(ActivationType::tanh).class_name() == "tanh");
}

TEST_CASE("nn: Flatten", "[gluon]") {
  nn::Flatten flatten;
  CHECK(flatten(nd.zeros({3, 4, 5, 6})).shape() == Shape(3, 120));
  CHECK(flatten(nd.zeros({3, 6})).shape() == Shape(3, 6));
  CHECK(flatten(nd.zeros({3})).shape() == Shape(3, 1));
}

}  // namespace nn_test
