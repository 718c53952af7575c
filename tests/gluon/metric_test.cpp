#include "kaon/gluon/metric.h"

#include <latch>

#include "kaon/tests/gluon/support.h"

namespace metric_test {

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
  CHECK_THROWS_WITH(acc.update(nd.array({0, 1}), pred),
                    Catch::Matchers::Contains("labels have shape (2,), which does not fit "
                                              "predictions of shape " +
                                              pred.shape().str()));
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

TEST_CASE("metric: several as one, by name", "[gluon]") {
  metric::CompositeEvalMetric both = metric::create(std::vector<std::string>{"acc", "ce"});
  both.add(metric::ConfusionMatrix(2));
  NDArray pred = nd.array({{0.25, 0.75}, {0.5, 0.5}}), label = nd.array({1, 1});
  both.update(label, pred);
  auto [names, values] = both.get();
  CHECK(names[0] == "accuracy");
  CHECK(names[1] == "cross-entropy");
  CHECK(names[5] == "confusion_1_1");
  CHECK(values[0] == 0.5);
  CHECK(values[1] == Approx(-(std::log(0.75) + std::log(0.5)) / 2));
  CHECK(sync_wait(both.values()) == values);
  CHECK(both.get_metric(0).get().second == 0.5);
  both.reset_local();
  CHECK(std::isnan(both.get_metric(0).get().second));
  CHECK(both.get_global().second == values);
  const metric::EvalMetric& base = both;
  CHECK_THROWS_WITH(base.get(), "[composite] get: the metric has 6 values; call get_name_value() or values()");
  CHECK_THROWS_WITH(base.value(), "[composite] value: the metric has 6 values; call get_name_value() or values()");
  CHECK_THROWS_WITH(both.get_metric(3), "[composite] there is no metric 3: it has 3");
  metric::CompositeEvalMetric outer({both}, "outer");
  CHECK_THROWS_WITH(both.add(outer), "[composite] a metric cannot be a part of itself: 'outer'");
  CHECK_THROWS_WITH(metric::create("top_k_acc"), "[metric::create] 'top_k_acc' needs the option top_k");
  CHECK_THROWS_WITH(metric::create("mae", {.axis = 1}), "[metric::create] 'mae' takes no option axis");
  CHECK_THROWS_WITH(metric::create("np"),
                    "[metric::create] 'np' needs a function: write metric::CustomMetric(function)");
  CHECK_THROWS_AS(metric::create("roc"), ValueError);
}

TEST_CASE("metric: matrices of confusion", "[gluon]") {
  metric::ConfusionMatrix m(3);
  CHECK(m.matrix().asvector<double>() == std::vector<double>(9));
  m.update(nd.array({0, 1, 2, 2}), nd.array({0, 2, 2, 1}));
  NDArray first = m.matrix();
  m.update(nd.array({1}), nd.array({{0, 3, 1}}));
  CHECK(first.asvector<double>() == std::vector<double>{1, 0, 0, 0, 0, 1, 0, 1, 1});
  CHECK(m.matrix().asvector<double>() == std::vector<double>{1, 0, 0, 0, 1, 1, 0, 1, 1});
  metric::PerClassF1 f1(3);
  f1.update(nd.array({0, 1, 2, 2}), nd.array({0, 2, 2, 1}));
  CHECK(sync_wait(f1.values()) == std::vector<double>{1, 0, 0.5});
  CHECK(f1.names() == std::vector<std::string>{"f1_0", "f1_1", "f1_2"});
  m.update(nd.array({3}), nd.array({1}));
  CHECK_THROWS_AS(m.get_name_value(), IndexError);
  CHECK_THROWS_AS(metric::ConfusionMatrix(0), ValueError);
  metric::F1 three;
  three.update(nd.array({0, 1, 2}), nd.zeros({3, 2}));
  CHECK_THROWS_AS(three.get(), ValueError);
  three.reset();
  CHECK_THROWS_AS(three.update(nd.array({0, 1}), nd.zeros({3, 2})), ShapeError);
  CHECK_THROWS_AS(metric::Perplexity({}).update(nd.array({0, 1}), nd.zeros({3, 2})), ShapeError);
  CHECK_THROWS_AS(metric::AUC().update(nd.array({0, 1}), nd.zeros({3})), ShapeError);
}

TEST_CASE("metric: no kind waits in update", "[gluon][async]") {
  NDArray pred = nd.array({{0.3, 0.7}, {0.6, 0.4}}), label = nd.array({1, 0});
  std::vector<metric::EvalMetric> all{metric::F1(),          metric::MCC(metric::Average::micro),
                                      metric::PCC(),         metric::AUC(),
                                      metric::Perplexity(0), metric::ConfusionMatrix(2)};
  all.push_back(metric::np([](std::span<const double>, std::span<const double> p) { return p[0]; }));
  std::latch gate(1);
  Engine::current().push({update(pred.var())}, [&](RunContext&) { gate.wait(); });
  for (metric::EvalMetric& m : all) {
    for (int i = 0; i < 3; ++i) m.update(label, pred);
    (void)m.values();
  }
  gate.count_down();
  for (int i : {0, 1, 2, 3}) CHECK(all[size_t(i)].get().second == 1);
  CHECK(all[6].get().second == Approx(0.3));
}

TEST_CASE("metric: what a function of values throws is thrown by the waits", "[gluon]") {
  metric::EvalMetric m = metric::np(
      [](std::span<const double>, std::span<const double>) -> double { throw ValueError("no figure today"); });
  m.update(nd.ones({2}), nd.ones({2}));
  CHECK_THROWS_AS(m.get(), ValueError);
  CHECK_THROWS_AS(sync_wait(m.value()), ValueError);
}

}  // namespace metric_test
