#include "kaon/gluon/metric.h"

#include <latch>

#include "kaon/tests/gluon/support.h"

using namespace kaon;
using namespace kaon::test;

TEST_CASE("metric: accuracy", "[gluon]") {
  metric::Accuracy acc;
  CHECK(std::isnan(acc.get().second));
  NDArray pred = nd.array({{0.3, 0.7}, {0.0, 1.0}, {0.4, 0.6}}), label = nd.array({0, 1, 1});
  acc.update(label, pred);
  CHECK(acc.get().first == "accuracy");
  CHECK(acc.get().second == Approx(2.0 / 3));
  acc.update(label.astype(DType::int32), pred);          // integer labels
  acc.update(nd.array({1, 1, 1}), nd.array({1, 1, 0}));  // predictions that are classes already
  CHECK(acc.get().second == Approx(6.0 / 9));
  acc.reset();
  CHECK(std::isnan(acc.get().second));
  // labels of more dimensions: classes along axis 1
  acc.update(nd.array({{0, 1}}), nd.array({0.9, 0.2, 0.1, 0.8}, {1, 2, 2}));
  CHECK(acc.get().second == 1);
  CHECK_THROWS_AS(acc.update(nd.array({0, 1}), pred), ShapeError);
}

TEST_CASE("metric: update only pushes", "[gluon][async]") {
  metric::Accuracy acc;
  NDArray pred = nd.array({{0.3, 0.7}, {0.6, 0.4}}), label = nd.array({1, 0});
  std::latch gate(1);
  Engine::current().push({update(pred.var())}, [&](RunContext&) { gate.wait(); });
  for (int i = 0; i < 10; ++i) acc.update(label, pred);
  gate.count_down();
  CHECK(acc.get().second == 1);
}

TEST_CASE("metric: a coroutine awaits the value", "[gluon]") {
  metric::Accuracy acc;
  auto run = [](metric::Accuracy acc) -> Task<double> {
    double none = co_await acc.value();
    acc.update(nd.array({0, 1}), nd.array({{0.9, 0.1}, {0.9, 0.1}}));
    double half = co_await acc.value();
    co_return std::isnan(none) ? half : -1;
  };
  CHECK(sync_wait(run(acc)) == 0.5);
  CHECK(acc.get().second == 0.5);  // the copy was the same metric
}

TEST_CASE("metric: top k", "[gluon]") {
  metric::TopKAccuracy top2(2);
  top2.update(nd.array({0, 1, 2}), nd.array({{0.1, 0.5, 0.4}, {0.3, 0.2, 0.5}, {0.1, 0.2, 0.7}}));
  CHECK(top2.get().second == Approx(1.0 / 3));
  CHECK(top2.name() == "top_k_accuracy_2");
  CHECK_THROWS_AS(metric::TopKAccuracy(0), ValueError);
}

TEST_CASE("metric: errors, entropy and losses by hand", "[gluon]") {
  NDArray label = nd.array({1, 2, 3}), pred = nd.array({1, 4, 0}, {3, 1});
  metric::MAE mae;
  metric::MSE mse;
  metric::RMSE rmse;
  mae.update(label, pred);
  mse.update(label, pred);
  rmse.update(label, pred);
  CHECK(mae.get().second == Approx(5.0 / 3));
  CHECK(mse.get().second == Approx(13.0 / 3));
  CHECK(rmse.get().second == Approx(std::sqrt(13.0 / 3)));
  metric::CrossEntropy ce;
  ce.update(nd.array({0, 1}), nd.array({{0.25, 0.75}, {0.5, 0.5}}));
  CHECK(ce.get().second == Approx(-(std::log(0.25) + std::log(0.5)) / 2));
  metric::Loss loss;
  loss.update(NDArray(), nd.array({1, 2}));
  loss.update(NDArray(), nd.array({6}));
  CHECK(loss.get().second == Approx(3));
}

TEST_CASE("metric: a failed batch is reported until reset", "[gluon]") {
  metric::Accuracy acc;
  acc.update(nd.array({0}), nd.random_normal({1, 2}, {.scale = -1}));
  CHECK_THROWS_AS(acc.get(), ValueError);
  CHECK_THROWS_AS(acc.get(), ValueError);
  acc.reset();
  acc.update(nd.array({0}), nd.array({{1, 0}}));
  CHECK(acc.get().second == 1);
}
