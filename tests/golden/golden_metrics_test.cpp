// Metrics beside MXNet 1.9.1, and beside NumPy where MXNet lacks them: data/gluon_metrics.json, which
// make_gluon_metrics.py has written, over three batches with reset_local() after the first.
#include <boost/json.hpp>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "kaon/engine/engine.h"
#include "kaon/gluon/metric.h"
#include "kaon/ops/functions.h"
#include "kaon/tests/golden/golden_file.h"

namespace golden_metrics_test {

using namespace kaon;
using namespace kaon::test;
namespace json = boost::json;
using metric::Average;
using metric::EvalMetric;

namespace {

NDArray array_of(const json::value& v, DType dtype) {
  Shape shape;
  for (const auto& d : v.at("shape").as_array()) shape.push_back(d.as_int64());
  std::vector<double> values;
  for (const auto& x : v.at("values").as_array()) values.push_back(x.to_number<double>());
  return nd.array(values, shape, {.dtype = dtype});
}

std::vector<NDArray> arrays_of(const json::value& v, DType dtype) {
  std::vector<NDArray> all;
  for (const auto& a : v.as_array()) all.push_back(array_of(a, dtype));
  return all;
}

using Make = std::function<EvalMetric()>;
double largest(std::span<const double> a, std::span<const double> b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// As in make_gluon_metrics.py; a metric by class is asked for one of its values.
const std::map<std::string, Make>& metrics() {
  static const auto* all = [] {
    auto* made = new std::map<std::string, Make>{
        {"accuracy", [] { return metric::Accuracy(); }},
        {"top_2", [] { return metric::create("top_k_acc", {.top_k = 2}); }},
        {"ce", [] { return metric::create("ce"); }},
        {"nll", [] { return metric::create("nll_loss", {.eps = 1e-3}); }},
        {"perplexity", [] { return metric::Perplexity({}); }},
        {"perplexity_zero", [] { return metric::Perplexity({}); }},
        {"perplexity_ignore", [] { return metric::create("Perplexity", {.ignore_label = 1}); }},
        {"perplexity_nothing", [] { return metric::Perplexity(0); }},
        {"pcc", [] { return metric::PCC(); }},
        {"pcc_two", [] { return metric::PCC(); }},
        {"pcc_never", [] { return metric::PCC(); }},
        {"pcc_classes", [] { return metric::PCC(); }},
        {"mae", [] { return metric::MAE(); }},
        {"mse", [] { return metric::MSE(); }},
        {"rmse", [] { return metric::RMSE(); }},
        {"pearson_macro", [] { return metric::create("pearsonr"); }},
        {"pearson_flat", [] { return metric::PearsonCorrelation(); }},
        {"pearson_micro", [] { return metric::PearsonCorrelation(Average::micro); }},
        {"pearson_shifted", [] { return metric::PearsonCorrelation(Average::micro); }},
        {"loss", [] { return metric::Loss(); }},
        {"custom",
         [] { return metric::CustomMetric([](const NDArray& l, const NDArray& p) { return nd.max(nd.abs(l - p)); }); }},
        {"custom_counts",
         [] {
           return metric::CustomMetric(
               [](const NDArray& l, const NDArray& p) { return std::pair(nd.abs(l - p).sum(), 2); });
         }},
        {"auc", [] { return metric::AUC(); }},
        {"auc_ties", [] { return metric::AUC(); }},
        {"auc_never", [] { return metric::AUC(); }},
    };
    for (const Average average : {Average::macro, Average::micro}) {
      for (const char* kind : {"", "_pairs", "_never"}) {
        const std::string end = (average == Average::macro ? "macro" : "micro") + std::string(kind);
        (*made)["f1_" + end] = [average] { return metric::F1(average); };
        (*made)["mcc_" + end] = [average] { return metric::create("mcc", {.average = average}); };
      }
    }
    for (int c = 0; c < 4; ++c) (*made)["class_f1_" + std::to_string(c)] = [] { return metric::PerClassF1(4); };
    return made;
  }();
  return *all;
}

void check_value(double got, const json::value& wanted, double tolerance) {
  if (wanted.is_null()) {
    CHECK(std::isnan(got));
    return;
  }
  const double w = wanted.to_number<double>();
  INFO("got " << got << ", wanted " << w);
  CHECK(std::abs(got - w) <= tolerance * (1 + std::abs(w)));
}

json::object golden() {
  std::ifstream in(golden_dir() / "gluon_metrics.json");
  std::stringstream text;
  text << in.rdbuf();
  return json::parse(text.str()).as_object();
}

void check_metric(EvalMetric m, const json::object& wanted, size_t which, DType dtype, double tolerance) {
  const auto& batches = wanted.at("batches").as_array();
  CHECK(std::isnan(m.get_name_value()[which].second));
  for (size_t i = 0; i < batches.size(); ++i) {
    m.update(arrays_of(batches[i].at(0), dtype), arrays_of(batches[i].at(1), dtype));
    const double awaited = sync_wait(m.values())[which], got = m.get_name_value()[which].second;
    CHECK((awaited == got || (std::isnan(awaited) && std::isnan(got))));
    check_value(got, wanted.at("values").at(i), tolerance);
    if (i == 0) m.reset_local();
  }
  check_value(m.get_global_name_value()[which].second, wanted.at("global"), tolerance);
  check_value(sync_wait(m.global_values())[which], wanted.at("global"), tolerance);
  m.reset();
  CHECK(std::isnan(m.get_global_name_value()[which].second));
}

}  // namespace

TEST_CASE("golden metrics: every case is as MXNet or NumPy has it", "[golden]") {
  const json::object all = golden();
  CHECK(all.size() == metrics().size());
  for (int threads : {0, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    for (const auto& [key, value] : all) {
      const std::string name(key);
      INFO(name << ", " << threads << " threads");
      REQUIRE(metrics().contains(name));
      const size_t which = name.starts_with("class_f1_") ? size_t(name.back() - '0') : 0;
      const EvalMetric m = metrics().at(name)();
      check_metric(m, value.as_object(), which, DType::float32, name == "pearson_shifted" ? 1e-4 : 1e-5);
      check_metric(m, value.as_object(), which, DType::float64, 1e-6);
    }
    engine.wait_all();
  }
}

TEST_CASE("golden metrics: a function of values gives what one of arrays does", "[golden]") {
  const json::object all = golden();
  check_metric(metric::np(largest), all.at("custom").as_object(), 0, DType::float32, 1e-6);
  auto counted = [](std::span<const double> a, std::span<const double> b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
    return std::pair(sum, 2);
  };
  check_metric(metric::np(counted), all.at("custom_counts").as_object(), 0, DType::float32, 1e-6);
}

}  // namespace golden_metrics_test
