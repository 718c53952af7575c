// What is computed from how often each class is taken for each: ConfusionMatrix, PerClassF1, PCC.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kaon/gluon/metric/classification.h"
#include "kaon/gluon/metric/internal/metric_node.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"

namespace kaon::metric {
namespace {

using namespace detail;

// Calls add(label, prediction) for each sample of arrays that are labels and predictions in turn.
template <class F>
void for_each_sample(std::span<const std::span<const double>> in, F add) {
  for (size_t i = 0; i < in.size(); i += 2) {
    for (size_t s = 0; s < in[i].size(); ++s) add(std::trunc(in[i][s]), std::trunc(in[i + 1][s]));
  }
}

std::vector<NDArray> labels_and_classes(const std::string& name, std::span<const NDArray> labels,
                                        std::span<const NDArray> preds) {
  std::vector<NDArray> arrays;
  for (size_t i = 0; i < preds.size(); ++i) {
    arrays.push_back(labels[i].reshape({-1}));
    arrays.push_back(classes_of(name, labels[i], preds[i], 1));
  }
  return arrays;
}

struct MatrixRule : MetricRule {
  MatrixRule(std::string_view name, int64_t classes) : MetricRule(name), classes(classes) {
    if (classes < 1) throw ValueError(fmt::format("[{}] num_classes must be at least 1, got {}", name, classes));
  }
  Total score(std::span<const NDArray> labels, std::span<const NDArray> preds) const override {
    auto body = [k = classes, name = name](auto in, std::span<double> out) {
      std::fill(out.begin(), out.end(), 0.0);
      for_each_sample(in, [&](double label, double pred) {
        for (double c : {label, pred}) {
          if (!(c >= 0 && c < double(k))) {
            throw IndexError(fmt::format("[{}] class {} is out of range for {} classes", name, c, k));
          }
        }
        ++out[size_t(label) * size_t(k) + size_t(pred)];
      });
    };
    return {on_host(labels_and_classes(name, labels, preds), classes * classes, "metric_confusion", body), 1};
  }
  std::vector<double> finish(std::span<const double> ready, const Total&) const override {
    return {ready.begin(), ready.end()};
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (int64_t i = 0; i < classes; ++i) {
      for (int64_t j = 0; j < classes; ++j) all.push_back(fmt::format("{}_{}_{}", name, i, j));
    }
    return all;
  }
  const int64_t classes;
};

struct PerClassF1Rule : MatrixRule {
  using MatrixRule::MatrixRule;
  std::vector<double> finish(std::span<const double> m, const Total&) const override {
    const size_t k = size_t(classes);
    std::vector<double> all;
    for (size_t c = 0; c < k; ++c) {
      double labels = 0, preds = 0;
      for (size_t j = 0; j < k; ++j) labels += m[c * k + j], preds += m[j * k + c];
      all.push_back(labels + preds > 0 ? 2 * m[c * k + c] / (labels + preds) : 0);
    }
    return all;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (int64_t i = 0; i < classes; ++i) all.push_back(fmt::format("{}_{}", name, i));
    return all;
  }
};

// A confusion matrix of as many classes as there have been: the operation that a Total's array comes from fills it.
struct Table : Kept {
  size_t classes = 0;
  std::vector<double> counts;

  void grow(size_t k) {
    if (k <= classes) return;
    std::vector<double> larger(k * k);
    for (size_t i = 0; i < classes; ++i) {
      std::copy_n(counts.begin() + ptrdiff_t(i * classes), classes, larger.begin() + ptrdiff_t(i * k));
    }
    counts = std::move(larger);
    classes = k;
  }
  void add(const Table& other) {
    grow(other.classes);
    for (size_t i = 0; i < other.classes; ++i) {
      for (size_t j = 0; j < other.classes; ++j) counts[i * classes + j] += other.counts[i * other.classes + j];
    }
  }
};

// Gorodkin 2004: the covariance of label and prediction as one-hot vectors, by its largest possible value.
double correlation(const Table& t) {
  const size_t k = t.classes;
  double n = 0;
  std::vector<double> labels(k), preds(k);
  for (size_t i = 0; i < k; ++i) {
    for (size_t j = 0; j < k; ++j) {
      const double c = t.counts[i * k + j];
      n += c, labels[i] += c, preds[j] += c;
    }
  }
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < k; ++i) {
    xx += labels[i] * (n - labels[i]);
    yy += preds[i] * (n - preds[i]);
    xy += t.counts[i * k + i] * n - labels[i] * preds[i];
  }
  return xx == 0 || yy == 0 ? std::numeric_limits<double>::quiet_NaN() : xy / std::sqrt(xx * yy);
}

struct CorrelationRule : MetricRule {
  using MetricRule::MetricRule;
  static constexpr double most_classes = 8192;  // 512 MiB

  Total score(std::span<const NDArray> labels, std::span<const NDArray> preds) const override {
    auto table = std::make_shared<Table>();
    auto body = [table, name = name](auto in, std::span<double> out) {
      for_each_sample(in, [&](double label, double pred) {
        for (double c : {label, pred}) {
          if (!(c >= 0 && c < most_classes)) {
            throw IndexError(fmt::format("[{}] classes are from 0 to {}, got {}", name, most_classes - 1, c));
          }
        }
        table->grow(size_t(std::max(label, pred)) + 1);
        ++table->counts[size_t(label) * table->classes + size_t(pred)];
      });
      out[0] = 0;
    };
    return {on_host(labels_and_classes(name, labels, preds), 1, "metric_pcc", body), 1, table};
  }
  Total add(const Total& a, const Total& b) const override {
    auto table = std::make_shared<Table>();
    const NDArray both[] = {a.values, b.values};  // whose operations fill the two tables
    auto body = [table, one = a.kept, other = b.kept](auto, std::span<double> out) {
      *table = static_cast<const Table&>(*one);
      table->add(static_cast<const Table&>(*other));
      out[0] = 0;
    };
    return {on_host(both, 1, "metric_pcc", body), a.count + b.count, table};
  }
  std::vector<double> finish(std::span<const double>, const Total& total) const override {
    return {correlation(static_cast<const Table&>(*total.kept))};
  }
};

}  // namespace

PCC::PCC(std::string_view name) : EvalMetric(std::make_shared<CorrelationRule>(name)) {}
ConfusionMatrix::ConfusionMatrix(int64_t num_classes, std::string_view name)
    : EvalMetric(std::make_shared<MatrixRule>(name, num_classes)), num_classes_(num_classes) {}
PerClassF1::PerClassF1(int64_t num_classes, std::string_view name)
    : EvalMetric(std::make_shared<PerClassF1Rule>(name, num_classes)) {}

namespace {
NDArray as_matrix(const NDArray& counts, int64_t k) {
  autograd::ModeScope mode(false, false);
  // a copy: what is added to later must not be written to
  return counts.defined() ? counts.reshape({k, k}).copy() : nd.zeros({k, k}, {.dtype = DType::float64});
}
}  // namespace

NDArray ConfusionMatrix::matrix() const { return as_matrix(node().ready(false), num_classes_); }
NDArray ConfusionMatrix::global_matrix() const { return as_matrix(node().ready(true), num_classes_); }

}  // namespace kaon::metric
