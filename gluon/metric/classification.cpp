// Accuracy, TopKAccuracy, and what two classes are scored by: F1, MCC, AUC.
#include "kaon/gluon/metric/classification.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kaon/gluon/metric/internal/metric_node.h"
#include "kaon/ops/functions.h"

namespace kaon::metric {
namespace {

using namespace detail;

struct RightShare : PairRule {
  RightShare(std::string_view name, int axis) : PairRule(name), axis(axis) {}
  Total score(const NDArray& label, const NDArray& pred) const override {
    const NDArray classes = classes_of(name, label, pred, axis);
    // float32 holds every class number below 2^24, and float64 every count.
    const NDArray is_right = as(label, DType::float32).reshape({-1}) == as(classes, DType::float32);
    return {total_of(is_right), label.size()};
  }
  int axis;
};

struct TopShare : PairRule {
  TopShare(std::string_view name, int top_k) : PairRule(name), top_k(top_k) {}
  Total score(const NDArray& label, const NDArray& pred) const override {
    if (pred.ndim() != 2 || label.size() != pred.shape()[0]) {
      throw ShapeError(fmt::format("[{}] predictions (batch, classes) and labels (batch,) are needed, got {} and {}",
                                   name, pred.shape().str(), label.shape().str()));
    }
    const NDArray own = nd.pick(pred, label.reshape({-1}), {.axis = 1, .keepdims = true});
    const NDArray higher = nd.sum(pred > own, {.axis = {1}, .keepdims = true});
    const NDArray is_right = (higher < top_k) * (own == own);  // nothing is higher than NaN
    return {total_of(is_right), label.size()};
  }
  int top_k;
};

// True and false positives and negatives.
struct Counts {
  enum : size_t { true_positive, false_positive, false_negative, true_negative, count };
};
using Figure = double (*)(std::span<const double> counts);

double f1_of(std::span<const double> c) {
  const double right = c[Counts::true_positive];
  const auto share = [&](double wrong) { return right + wrong > 0 ? right / (right + wrong) : 0; };
  const double precision = share(c[Counts::false_positive]), recall = share(c[Counts::false_negative]);
  return precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
}

double mcc_of(std::span<const double> c) {
  const double tp = c[Counts::true_positive], fp = c[Counts::false_positive];
  const double fn = c[Counts::false_negative], tn = c[Counts::true_negative];
  double product = 1;
  for (double factor : {tp + fp, tp + fn, tn + fp, tn + fn}) product *= factor != 0 ? factor : 1;
  return (tp * tn - fp * fn) / std::sqrt(product);
}

struct TwoClasses : MetricRule {
  TwoClasses(std::string_view name, Average average, Figure figure)
      : MetricRule(name), average(average), figure(figure) {}

  Total score(std::span<const NDArray> labels, std::span<const NDArray> preds) const override {
    std::vector<NDArray> arrays;
    for (size_t i = 0; i < preds.size(); ++i) {
      if (preds[i].ndim() != 2 || labels[i].size() != preds[i].shape()[0]) {
        throw ShapeError(fmt::format("[{}] predictions (batch, 2) and labels (batch,) are needed, got {} and {}", name,
                                     preds[i].shape().str(), labels[i].shape().str()));
      }
      arrays.push_back(labels[i]);
      arrays.push_back(classes_of(name, labels[i], preds[i], 1));
    }
    const bool is_macro = average == Average::macro;
    auto body = [is_macro, name = name, figure = figure](auto in, std::span<double> out) {
      std::array<double, Counts::count> counts{};
      for (size_t i = 0; i < in.size(); i += 2) count(name, in[i], in[i + 1], counts);
      if (is_macro) {
        out[0] = figure(counts);
      } else {
        std::copy(counts.begin(), counts.end(), out.begin());
      }
    };
    return {on_host(arrays, is_macro ? 1 : int64_t(Counts::count), "metric_two_classes", body), 1};
  }
  std::vector<double> finish(std::span<const double> ready, const Total& total) const override {
    return {average == Average::macro ? ready[0] / double(total.count) : figure(ready)};
  }

  static void count(const std::string& name, std::span<const double> label, std::span<const double> pred,
                    std::span<double> counts) {
    double seen[2] = {};
    int kinds = 0;
    for (size_t i = 0; i < label.size(); ++i) {
      const double l = std::trunc(label[i]);
      if (std::find(seen, seen + kinds, l) == seen + kinds) {
        if (kinds == 2) {
          throw ValueError(fmt::format("[{}] labels of two classes are needed, got {}, {} and {} in one batch", name,
                                       seen[0], seen[1], l));
        }
        seen[kinds++] = l;
      }
      const bool is_one = l == 1, says_one = pred[i] == 1;
      ++counts[says_one ? (is_one ? Counts::true_positive : Counts::false_positive)
                        : (is_one ? Counts::false_negative : Counts::true_negative)];
    }
  }

  Average average;
  Figure figure;
};

// Labels and scores of all samples, (2, n) arrays of float64 of which each is larger than the next.
struct Samples : Kept {
  std::vector<NDArray> chunks;
};

double area(std::span<const std::span<const double>> chunks) {
  std::vector<std::pair<double, bool>> samples;  // score, label
  for (std::span<const double> c : chunks) {
    const size_t n = c.size() / 2;
    for (size_t i = 0; i < n; ++i) samples.emplace_back(c[n + i], c[i] > 0);
  }
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  double ones = 0;
  for (const auto& [score, label] : samples) {
    if (std::isnan(score)) return nan;
    ones += label;
  }
  const double zeros = double(samples.size()) - ones;
  if (ones == 0 || zeros == 0) return nan;
  std::sort(samples.begin(), samples.end());
  double pairs = 0, below = 0;  // samples with label 0 of a lower score
  for (size_t i = 0; i < samples.size();) {
    double ones_here = 0, zeros_here = 0;
    const double score = samples[i].first;
    for (; i < samples.size() && samples[i].first == score; ++i) ++(samples[i].second ? ones_here : zeros_here);
    pairs += ones_here * (below + zeros_here / 2);
    below += zeros_here;
  }
  return pairs / (ones * zeros);
}

struct AreaRule : MetricRule {
  using MetricRule::MetricRule;

  Total score(std::span<const NDArray> labels, std::span<const NDArray> preds) const override {
    auto samples = std::make_shared<Samples>();
    Total total;
    for (size_t i = 0; i < preds.size(); ++i) {
      const NDArray &label = labels[i], &pred = preds[i];
      const bool is_both = pred.ndim() == 2 && pred.shape()[1] == 2 && label.size() != pred.size();
      const NDArray scores = is_both ? nd.slice_axis(pred, 1, 1, 2) : pred;
      if (scores.size() != label.size()) {
        throw ShapeError(fmt::format("[{}] scores (batch,) or (batch, 2) and labels (batch,) are needed, got {} and {}",
                                     name, pred.shape().str(), label.shape().str()));
      }
      append(samples->chunks, nd.stack(as_float64(label).reshape({-1}), as_float64(scores).reshape({-1})));
    }
    total.values = samples->chunks[0];
    total.kept = std::move(samples);
    return total;
  }
  Total add(const Total& a, const Total& b) const override {
    auto samples = std::make_shared<Samples>(static_cast<const Samples&>(*a.kept));
    for (const NDArray& chunk : static_cast<const Samples&>(*b.kept).chunks) {
      append(samples->chunks, chunk.as_in_context(samples->chunks[0].device()));
    }
    return {samples->chunks[0], 0, std::move(samples)};
  }
  NDArray ready(const Total& total) const override {
    return on_host(static_cast<const Samples&>(*total.kept).chunks, 1, "metric_auc",
                   [](auto in, std::span<double> out) { out[0] = area(in); });
  }
  std::vector<double> finish(std::span<const double> ready, const Total&) const override { return {ready[0]}; }

  // Joins chunks that have grown alike: each sample is copied log(n) times, and there are log(n) chunks.
  static void append(std::vector<NDArray>& chunks, NDArray chunk) {
    while (!chunks.empty() && chunks.back().size() <= chunk.size()) {
      chunk = nd.concat(op::Concat{.dim = 1}, chunks.back(), chunk);
      chunks.pop_back();
    }
    chunks.push_back(chunk);
  }
};

}  // namespace

Accuracy::Accuracy(int axis, std::string_view name) : EvalMetric(std::make_shared<RightShare>(name, axis)) {}

TopKAccuracy::TopKAccuracy(int top_k, std::string_view name)
    : EvalMetric(std::make_shared<TopShare>(fmt::format("{}_{}", name, top_k), top_k)) {
  if (top_k < 1) throw ValueError(fmt::format("[TopKAccuracy] top_k must be at least 1, got {}", top_k));
}

F1::F1(Average average, std::string_view name) : EvalMetric(std::make_shared<TwoClasses>(name, average, f1_of)) {}
MCC::MCC(Average average, std::string_view name) : EvalMetric(std::make_shared<TwoClasses>(name, average, mcc_of)) {}
AUC::AUC(std::string_view name) : EvalMetric(std::make_shared<AreaRule>(name)) {}

}  // namespace kaon::metric
