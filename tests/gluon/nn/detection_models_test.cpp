// SSD and U-Net in both modes, and VOC's mean average precision against NumPy's.
#include <fstream>

#include "kaon/gluon/metric/detection.h"
#include "kaon/gluon/model_zoo/ssd.h"
#include "kaon/gluon/model_zoo/unet.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace detection_models_test {

using namespace kaon;
using namespace kaon::test;
namespace vision = kaon::gluon::model_zoo::vision;
using Catch::Matchers::Contains;

TEST_CASE("metric: VOC's mean average precision is NumPy's", "[gluon]") {
  std::ifstream in(data_file("voc_map.txt"));
  const auto read = [&](const Shape& shape) {
    std::vector<float> v(size_t(shape.size()));
    for (float& x : v) in >> x;
    return nd.array(v, shape);
  };
  int cases = 0;
  int64_t batch = 0, m = 0, width = 0, n = 0;
  for (double least = 0; in >> batch >> m >> width >> n >> least; ++cases) {
    const NDArray labels = read({batch, m, width}), preds = read({batch, n, 6});
    for (bool voc07 : {false, true}) {
      double expected = 0;
      in >> expected;
      metric::VOCMApMetric whole({.iou_thresh = least, .voc07 = voc07}), parts({.iou_thresh = least, .voc07 = voc07});
      whole.update(labels, preds);
      for (int64_t i = 0; i < batch; ++i) parts.update(labels.slice(i, i + 1), preds.slice(i, i + 1));
      CHECK(whole.get().second == Approx(expected));
      CHECK(parts.get().second == Approx(expected));
    }
  }
  CHECK(cases == 4);
}

TEST_CASE("metric: mean average precision without objects, and what it refuses", "[gluon]") {
  metric::VOCMApMetric map;
  map.update(nd.zeros({0, 3, 5}), nd.zeros({0, 4, 6}));
  CHECK(std::isnan(map.get().second));
  map.update(nd.array({0, 0, 0, 1, 1}, {1, 1, 5}), nd.zeros({1, 0, 6}));
  CHECK(map.get().second == 0);
  CHECK_THROWS_WITH(map.update(nd.zeros({1, 3, 4}), nd.zeros({1, 4, 6})), Contains("[map]") && Contains("(1, 3, 4)"));
  CHECK_THROWS_AS(map.update(nd.zeros({2, 3, 5}), nd.zeros({1, 4, 6})), ShapeError);
  CHECK_THROWS_WITH(metric::VOCMApMetric({.iou_thresh = 0}), Contains("iou_thresh") && Contains("got 0"));
}

TEST_CASE("ssd: shapes, both modes, a loss that falls", "[gluon]") {
  const auto stage = [](int64_t c) {
    return nn::HybridSequential(
        nn::Conv2D(c, {.kernel_size = {3, 3}, .strides = {2, 2}, .padding = {1, 1}, .activation = "relu"}));
  };
  auto net = ready(vision::SSD(2, {stage(4), stage(6)}));
  const NDArray x = numbers({2, 3, 16, 16});
  const NDArray labels =
      nd.array({1, 0.1, 0.2, 0.5, 0.6, -1, -1, -1, -1, -1, 0, 0.5, 0.5, 0.9, 0.8, 1, 0, 0, 0.3, 0.3}, {2, 2, 5});
  auto [anchors, scores, boxes] = net(x);
  const int64_t n = (8 * 8 + 4 * 4) * 4;
  CHECK(anchors.shape() == Shape(1, n, 4));
  CHECK(scores.shape() == Shape(2, n, 3));
  CHECK(boxes.shape() == Shape(2, 4 * n));
  const auto detections = values(net.detect(x));
  CHECK(net.detect(x).shape() == Shape(2, n, 6));
  net.hybridize({.exact = true});
  require_close(std::get<1>(net(x)), values(scores), 1e-5, 1e-6);
  require_close(net.detect(x), detections, 1e-4, 1e-5);
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 0.01}));
  const auto loss = [&] {
    auto [a, s, b] = net(x);
    return net.loss(nd, a, s, b, labels);
  };
  const double before = loss().mean().asscalar<double>();
  for (int i = 0; i < 20; ++i) {
    autograd::record(loss).backward();
    trainer.step(2);
  }
  CHECK(loss().mean().asscalar<double>() < before / 1.5);
  CHECK_THROWS_WITH(vision::SSD(0, {stage(4)}), Contains("[SSD]"));
  CHECK_THROWS_AS(vision::SSD(2, {}), ValueError);
}

TEST_CASE("unet: shapes, both modes, gradients of all parameters", "[gluon]") {
  auto net = ready(vision::UNet({.classes = 3, .channels = 4, .depth = 2}));
  const NDArray x = numbers({2, 1, 8, 12});
  const NDArray y = net(x);
  CHECK(y.shape() == Shape(2, 3, 8, 12));
  net.hybridize({.exact = true});
  require_close(net(x), values(y), 1e-5, 1e-6);
  autograd::record([&] { return nd.square(net(x)); }).backward();
  for (const auto& p : net.collect_params()) {
    if (p.grad_req() != GradReq::null) CHECK(nd.norm(p.grad()).asscalar<float>() > 0);
  }
  CHECK_THROWS_AS(net(numbers({1, 1, 6, 8})), ShapeError);
  CHECK_THROWS_WITH(vision::UNet({.depth = -1}), Contains("[UNet]"));
}

}  // namespace detection_models_test
