#include "kaon/gluon/metric/probability.h"

#include <fmt/format.h>

#include <cmath>

#include "kaon/gluon/metric/internal/metric_node.h"
#include "kaon/ops/functions.h"

namespace kaon::metric {
namespace {

using namespace detail;

struct NegativeLogs : PairRule {
  NegativeLogs(std::string_view name, double eps) : PairRule(name), eps(eps) {}
  Total score(const NDArray& label, const NDArray& pred) const override {
    if (pred.ndim() != 2 || label.size() != pred.shape()[0]) {
      throw ShapeError(fmt::format("[{}] predictions (batch, classes) and labels (batch,) are needed, got {} and {}",
                                   name, pred.shape().str(), label.shape().str()));
    }
    const NDArray p = nd.pick(pred, label.reshape({-1}), {.axis = 1, .keepdims = true});
    return {as_float64(-nd.log(p + eps).sum()), label.size()};
  }
  double eps;
};

struct PerplexityRule : PairRule {
  PerplexityRule(std::string_view name, std::optional<int64_t> ignore_label, int axis)
      : PairRule(name), ignore_label(ignore_label), axis(axis) {}

  Total score(const NDArray& label, const NDArray& pred) const override {
    const int at = axis < 0 ? axis + pred.ndim() : axis;
    if (at < 0 || at >= pred.ndim()) {
      throw ShapeError(fmt::format("[{}] predictions of shape {} have no axis {}", name, pred.shape().str(), axis));
    }
    Shape rest;
    for (int i = 0; i < pred.ndim(); ++i) {
      if (i != at) rest.push_back(pred.shape()[i]);
    }
    if (label.size() != rest.size()) {
      throw ShapeError(
          fmt::format("[{}] labels have shape {}, which does not fit predictions of shape {} with classes "
                      "along axis {}",
                      name, label.shape().str(), pred.shape().str(), axis));
    }
    NDArray classes = label.reshape(rest);
    const NDArray ones = nd.ones(rest, {.dtype = DType::float64, .device = pred.device()});
    NDArray counts = ones;
    if (ignore_label) {
      const NDArray is_ignored = classes == double(*ignore_label);
      counts = nd.where(is_ignored, nd.zeros_like(ones), ones);
      classes = nd.where(is_ignored, 0.0, classes);  // a class that there is, also for set_checks
    }
    // in float64: log(1e-10) is out of the range of float16
    const NDArray p = nd.maximum(as_float64(nd.pick(pred, classes, {.axis = at})), 1e-10);
    const NDArray logs = nd.where(counts, nd.log(p), nd.zeros_like(p));
    return {numbers({-logs.sum(), counts.sum()}), 1};
  }
  std::vector<double> finish(std::span<const double> sums, const Total&) const override {
    return {std::exp(sums[0] / sums[1])};
  }

  std::optional<int64_t> ignore_label;
  int axis;
};

}  // namespace

CrossEntropy::CrossEntropy(double eps, std::string_view name) : EvalMetric(std::make_shared<NegativeLogs>(name, eps)) {}
NegativeLogLikelihood::NegativeLogLikelihood(double eps, std::string_view name)
    : EvalMetric(std::make_shared<NegativeLogs>(name, eps)) {}
Perplexity::Perplexity(std::optional<int64_t> ignore_label, int axis, std::string_view name)
    : EvalMetric(std::make_shared<PerplexityRule>(name, ignore_label, axis)) {}

}  // namespace kaon::metric
