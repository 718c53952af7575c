// The residual networks: MXNet's names, shapes and numbers (tests/data/make_model_zoo.py), imperative and hybridized.
#include "kaon/gluon/model_zoo/resnet.h"

#include <fmt/format.h>
#include <boost/json.hpp>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/summary.h"
#include "kaon/gluon/symbol_block.h"
#include "kaon/gluon/trainer.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/gluon/nn/model_zoo_support.h"
#include "kaon/tests/support/files.h"

namespace model_zoo_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
namespace vision = kaon::gluon::model_zoo::vision;

namespace {

boost::json::object mxnet() { return boost::json::parse(bytes_of(data_file("model_zoo.json"))).as_object(); }

void require_sums(const NDArray& got, const boost::json::value& expected, double rtol) {
  double sum = 0, abs_sum = 0;
  for (double v : values(got)) sum += v, abs_sum += std::abs(v);
  const double wanted = expected.as_array()[1].to_number<double>();
  REQUIRE(sum == Approx(expected.as_array()[0].to_number<double>()).margin(rtol * wanted));
  REQUIRE(abs_sum == Approx(wanted).epsilon(rtol));
}

std::vector<double> numbers_of(const boost::json::value& list) {
  std::vector<double> v;
  for (const auto& x : list.as_array()) v.push_back(x.to_number<double>());
  return v;
}

vision::ResNetV1 small(int num_layers) { return vision::ResNetV1(num_layers, {.classes = 10, .thumbnail = true}); }

}  // namespace

TEST_CASE("model zoo: parameters have MXNet's names and shapes, in its order", "[gluon]") {
  const auto file = mxnet();
  for (const auto& [name, expected] : file.at("parameters").as_object()) {
    INFO(std::string(name));
    const bool thumbnail = std::string_view(name).ends_with("thumbnail");
    vision::ResNetV1 net(name.find("18") != name.npos ? 18 : 50,
                         {.classes = thumbnail ? 10 : 1000, .thumbnail = thumbnail});
    gluon::summary(net, {1, 3, 32, 32});  // completes the shapes
    Named found = dotted(*net.node());
    REQUIRE(found.size() == expected.as_array().size());
    for (size_t i = 0; i < found.size(); ++i) {
      const auto& line = expected.as_array()[i].as_array();
      INFO(found[i].first);
      REQUIRE(found[i].first == std::string(line[0].as_string()));
      Shape shape;
      for (double d : numbers_of(line[1])) shape.push_back(int64_t(d));
      REQUIRE(found[i].second.shape() == shape);
    }
  }
}

TEST_CASE("model zoo: every depth has as many parameters as MXNet's", "[gluon]") {
  const auto file = mxnet();
  const std::pair<const char*, vision::ResNetV1> nets[] = {{"resnet18_v1", vision::resnet18_v1()},
                                                           {"resnet34_v1", vision::resnet34_v1()},
                                                           {"resnet50_v1", vision::resnet50_v1()},
                                                           {"resnet101_v1", vision::resnet101_v1()},
                                                           {"resnet152_v1", vision::resnet152_v1()}};
  for (const auto& [name, net] : nets) {
    INFO(name);
    gluon::summary(net, {1, 3, 32, 32});
    auto parameters = net.collect_params();
    int64_t elements = 0;
    for (const gluon::Parameter& p : parameters) elements += p.shape().size();
    auto expected = numbers_of(file.at("sizes").at(name));
    CHECK(double(parameters.size()) == expected[0]);
    CHECK(double(elements) == expected[1]);
  }
  CHECK(gluon::summary(vision::resnet18_v1(), {2, 3, 224, 224}).find("(2, 1000)") != std::string::npos);
}

TEST_CASE("model zoo: MXNet's outputs, gradients and running statistics", "[gluon]") {
  const auto file = mxnet();
  for (const auto& [name, outcome] : file.at("outcomes").as_object()) {
    const auto& golden = outcome.as_object();
    const int64_t size = golden.at("size").as_int64();
    vision::ResNetV1 net(std::stoi(std::string(name)),
                         {.classes = 10, .thumbnail = std::string_view(name).ends_with("thumbnail")});
    NDArray x = formula({2, 3, size, size}, -1, -1, 1);
    net.initialize();
    net(x);
    Named found = dotted(*net.node());
    for (bool hybridized : {false, true}) {
      INFO("resnet" << std::string(name) << (hybridized ? " hybridized" : " imperative"));
      for (size_t k = 0; k < found.size(); ++k) {
        auto& [path, p] = found[k];
        auto [low, high] = bounds(path, p.shape());
        p.set_data(formula(p.shape(), int(k), low, high));
      }
      if (hybridized) net.hybridize({.static_alloc = true, .static_shape = true});
      require_close(net(x), numbers_of(golden.at("predicted")), 1e-4, 1e-4);
      if (!golden.contains("trained")) continue;
      x.attach_grad();
      NDArray y = autograd::record([&] { return net(x); });
      y.backward(nd.reshape(nd.arange(20), {2, 10}) / 10 - 1);
      require_close(y, numbers_of(golden.at("trained")), 1e-3, 1e-4);
      const auto& gradients = golden.at("gradients").as_object();
      const auto& statistics = golden.at("statistics").as_object();
      require_sums(x.grad(), gradients.at("data"), 2e-3);
      for (const auto& [path, p] : found) {
        INFO(path);
        if (p.grad_req() == GradReq::null) require_sums(p.data(), statistics.at(path), 1e-5);
        else require_sums(p.grad(), gradients.at(path), 2e-3);
      }
    }
  }
}

namespace {

enum class Run { imperative, exact, fast };

// Prediction; then output, gradients and running statistics of a training step and of a recorded prediction.
template <class B>
std::vector<std::vector<double>> outcome(B net, const Shape& shape, Run run) {
  random::seed(5);
  net.initialize(init::Xavier());
  net(numbers({1, shape[1], shape[2], shape[3]}));
  if (run != Run::imperative) net.hybridize({.static_alloc = true, .static_shape = true, .exact = run == Run::exact});
  NDArray x = numbers(shape, 3);
  x.attach_grad();
  std::vector<std::vector<double>> result{values(net(x))};
  for (bool training : {true, false}) {
    for (auto& v : forward_backward(net, x, training)) result.push_back(std::move(v));
  }
  return result;
}

// The length of the difference, relative to the expected length. Element by element, a value near 0 that passes a relu
// in one run and not in the other changes gradients far more than rounding does.
double distance(const std::vector<double>& got, const std::vector<double>& expected) {
  double difference = 0, length = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    length += expected[i] * expected[i];
  }
  return std::sqrt(difference) / (std::sqrt(length) + 1e-3);
}

// In training, with the statistics of few values, a deep net amplifies rounding: `deep` compares nothing there.
template <class Make>
void check_modes(Make make, const Shape& shape, bool deep) {
  auto expected = outcome(make(), shape, Run::imperative);
  const bool same = outcome(make(), shape, Run::exact) == expected;
  REQUIRE(same);
  auto fast = outcome(make(), shape, Run::fast);
  const size_t per_step = (fast.size() - 1) / 2;
  for (size_t i = 0; i < fast.size(); ++i) {
    const bool training = i >= 1 && i <= per_step, output = i == 0 || (i - 1) % per_step == 0;
    if (training && deep) continue;
    INFO("value " << i);
    REQUIRE(distance(fast[i], expected[i]) < (output ? 1e-4 : deep ? 0.1 : 1e-2));
  }
}

nn::HybridSequential each_block() {
  return nn::HybridSequential(nn::Conv2D(16, {.kernel_size = 3}), vision::BasicBlockV1(16, 1),
                              vision::BasicBlockV1(32, 2, true, 16), vision::BottleneckV1(32, 1),
                              vision::BottleneckV1(64, 2, true), nn::GlobalAvgPool2D(), nn::Dense(5));
}

}  // namespace

TEST_CASE("model zoo: hybridized equals imperative, bit for bit when exact", "[gluon][unsanitized]") {
  for (const Shape& shape : {Shape(4, 3, 18, 18), Shape(1, 3, 19, 11), Shape(7, 1, 10, 13)}) {
    INFO(shape.str());
    check_modes(each_block, shape, false);
  }
  check_modes([] { return small(18); }, {2, 3, 16, 16}, true);
  check_modes([] { return small(50); }, {3, 4, 15, 16}, true);
}

TEST_CASE("model zoo: a hybridized net learns, one submission per forward and backward", "[gluon]") {
  auto net = small(18);
  net.initialize(init::Xavier());
  net.hybridize({.static_alloc = true, .static_shape = true});
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  loss_fn.hybridize();
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.05, .momentum = 0.9}));
  NDArray x = numbers({4, 3, 8, 8}), label = nd.array({1, 3, 5, 7});
  double first = 0, last = 0;
  for (int i = 0; i < 8; ++i) {
    NDArray loss = autograd::record([&] { return loss_fn(net(x), label); });
    loss.backward();
    trainer.step(4);
    last = loss.mean().asscalar<double>();
    if (i == 0) first = last;
  }
  CHECK(last < first / 2);
  nd.waitall();
  const uint64_t before = Engine::current().stats().ops;
  NDArray y = autograd::record([&] { return net(x); });
  CHECK(Engine::current().stats().ops == before + 1);
  y.backward();
  CHECK(Engine::current().stats().ops == before + 2);
}

TEST_CASE("model zoo: parameters saved and loaded, also before the first call", "[gluon]") {
  ScratchFolder folder;
  auto net = small(18);
  net.initialize(init::Xavier());
  NDArray x = numbers({2, 3, 12, 12});
  autograd::record([&] { return net(x); });  // moves the running statistics
  net.save_parameters(folder / "resnet.params");
  std::vector<std::string> names;
  for (const auto& entry : nd_file::load(folder / "resnet.params")) names.push_back(entry.first);
  std::vector<std::string> expected;
  const auto file = mxnet();
  for (const auto& line : file.at("parameters").at("resnet18_v1 thumbnail").as_array())
    expected.emplace_back(line.as_array()[0].as_string());
  CHECK(names == expected);
  auto same = small(18);
  same.load_parameters(folder / "resnet.params");  // shapes and values come from the file
  CHECK(same_bits(same(x), net(x)));
  vision::ResNetV1 other(18, {.classes = 11, .thumbnail = true});
  CHECK_THROWS_AS(other.load_parameters(folder / "resnet.params"), ShapeError);
  CHECK_THROWS_AS(small(34).load_parameters(folder / "resnet.params"), ValueError);
}

TEST_CASE("model zoo: resnet18_v1 exported and imported", "[gluon]") {
  ScratchFolder folder;
  auto net = vision::resnet18_v1({.classes = 7});
  net.initialize(init::Xavier());
  net.hybridize({.static_alloc = true, .static_shape = true});
  NDArray x = numbers({2, 3, 33, 32});
  NDArray y = net(x);
  net.export_model((folder / "resnet").string(), 3);
  auto back = gluon::SymbolBlock::imports(folder / "resnet-symbol.json", {"data"}, folder / "resnet-0003.params");
  CHECK(y.shape() == Shape(2, 7));
  require_close(back(x), values(y), 1e-5, 1e-5);
  require_close(back(x.slice(0, 1)), values(y.slice(0, 1)), 1e-4, 1e-5);
}

TEST_CASE("model zoo: shapes, sizes and dtypes of the input", "[gluon]") {
  for (bool hybridized : {false, true}) {
    INFO((hybridized ? "hybridized" : "imperative"));
    auto net = vision::resnet18_v1({.classes = 3});
    net.initialize();
    net.hybridize(hybridized);
    CHECK(net.features[0].name() == "conv0");
    CHECK(net.collect_params("features_conv0_weight")[0].shape() == Shape(64, 0, 7, 7));
    CHECK(net(nd.zeros({1, 5, 20, 31})).shape() == Shape(1, 3));
    CHECK(net.collect_params("features_conv0_weight")[0].shape() == Shape(64, 5, 7, 7));
    CHECK(net(nd.zeros({2, 5, 1, 1})).shape() == Shape(2, 3));
    CHECK_THROWS_AS(net(nd.zeros({1, 3, 20, 20})), ShapeError);
    CHECK_THROWS_AS(net(nd.zeros({1, 5, 20})), Error);

    NDArray none = nd.zeros({0, 5, 20, 20});
    CHECK(net(none).shape() == Shape(0, 3));
    NDArray y = autograd::record([&] { return net(none); });
    y.backward();
    for (const gluon::Parameter& p : net.collect_params()) {
      if (p.grad_req() != GradReq::null) CHECK(nd.norm(p.grad()).asscalar<float>() == 0);
    }

    NDArray image = numbers({2, 5, 20, 20});
    auto wide = values(net(image));
    for (DType dtype : {DType::float64, DType::bfloat16, DType::float16}) {  // 16 bits last: they round the weights
      net.cast(dtype);
      NDArray z = net(image.astype(dtype));
      CHECK(z.dtype() == dtype);
      require_close(z, wide, 0.05, dtype == DType::float64 ? 1e-5 : 0.02);
    }
  }
}

TEST_CASE("model zoo: what there is not is refused by name", "[gluon]") {
  CHECK_THROWS_WITH(vision::ResNetV1(19), Contains("19") && Contains("18, 34, 50, 101, 152"));
  CHECK_THROWS_AS(vision::resnet18_v1({.classes = 0}), ValueError);
  CHECK_THROWS_WITH(vision::BasicBlockV1(8, 2), Contains("basicblockv1") && Contains("stride 2"));
  CHECK_THROWS_WITH(vision::BasicBlockV1(8, 1, false, 4), Contains("8 channels from 4"));
  CHECK_THROWS_AS(vision::BottleneckV1(6, 1, true), ValueError);
  CHECK_THROWS_AS(vision::BottleneckV1(8, 0, true), ValueError);
  vision::BasicBlockV1 block(8, 1);  // one channel would be added to all eight
  block.initialize();
  CHECK_THROWS_AS(block(nd.ones({1, 1, 4, 4})), ShapeError);
  CHECK(block(nd.ones({1, 8, 4, 4})).shape() == Shape(1, 8, 4, 4));
  vision::BottleneckV1 deferred(8, 2, true);
  deferred.initialize();
  CHECK(deferred(nd.ones({1, 3, 4, 5})).shape() == Shape(1, 8, 2, 3));
}

}  // namespace model_zoo_test
