#include "kaon/gluon/metric/regression.h"

#include <cmath>

#include "kaon/gluon/metric/internal/metric_node.h"
#include "kaon/ops/functions.h"

namespace kaon::metric {
namespace {

using namespace detail;

// label - pred, in the dtype of pred.
NDArray difference(const std::string& metric, const NDArray& label, const NDArray& pred) {
  expect_same_size(metric, label, pred);
  return as(label, pred.dtype()).reshape(pred.shape()) - pred;
}

struct AbsoluteError : PairRule {
  using PairRule::PairRule;
  Total score(const NDArray& label, const NDArray& pred) const override {
    return {as_float64(nd.abs(difference(name, label, pred)).sum()), pred.size()};
  }
};

struct SquaredError : PairRule {
  SquaredError(std::string_view name, bool root) : PairRule(name), root(root) {}
  Total score(const NDArray& label, const NDArray& pred) const override {
    return {as_float64(nd.square(difference(name, label, pred)).sum()), pred.size()};
  }
  std::vector<double> finish(std::span<const double> sum, const Total& total) const override {
    const double mean = sum[0] / double(total.count);
    return {root ? std::sqrt(mean) : mean};
  }
  bool root;
};

struct LossMean : PairRule {
  using PairRule::PairRule;
  bool needs_pairs() const override { return false; }
  Total score(const NDArray&, const NDArray& pred) const override { return {as_float64(pred.sum()), pred.size()}; }
};

// The values of a batch: the means of x and y, then the sums of the squares and the products of what differs from them.
struct Moments {
  enum : size_t { mean_x, mean_y, xx, yy, xy, count };
};

double correlation(std::span<const double> m) {
  return m[Moments::xy] / (std::sqrt(m[Moments::xx]) * std::sqrt(m[Moments::yy]));
}

// Of two sets together: Chan, Golub and LeVeque 1979. Plain sums of squares would cancel.
void merge(std::span<const double> a, double na, std::span<const double> b, double nb, std::span<double> out) {
  const double n = na + nb, share = nb / n, weight = na * share;
  const double dx = b[Moments::mean_x] - a[Moments::mean_x], dy = b[Moments::mean_y] - a[Moments::mean_y];
  out[Moments::mean_x] = a[Moments::mean_x] + dx * share;
  out[Moments::mean_y] = a[Moments::mean_y] + dy * share;
  out[Moments::xx] = a[Moments::xx] + b[Moments::xx] + dx * dx * weight;
  out[Moments::yy] = a[Moments::yy] + b[Moments::yy] + dy * dy * weight;
  out[Moments::xy] = a[Moments::xy] + b[Moments::xy] + dx * dy * weight;
}

struct Correlation : PairRule {
  Correlation(std::string_view name, Average average) : PairRule(name), average(average) {}

  Total score(const NDArray& label, const NDArray& pred) const override {
    expect_same_size(name, label, pred);
    const NDArray x = as_float64(pred).reshape({-1}), y = as_float64(label).reshape({-1});
    const NDArray mean_x = x.mean(), mean_y = y.mean(), dx = x - mean_x, dy = y - mean_y;
    const NDArray xx = nd.square(dx).sum(), yy = nd.square(dy).sum(), xy = (dx * dy).sum();
    if (average == Average::macro) return {xy / (nd.sqrt(xx) * nd.sqrt(yy)), 1};
    return {numbers({mean_x, mean_y, xx, yy, xy}), pred.size()};
  }
  Total add(const Total& a, const Total& b) const override {
    if (average == Average::macro) return PairRule::add(a, b);
    const NDArray both[] = {a.values, b.values};
    auto body = [na = double(a.count), nb = double(b.count)](auto in, std::span<double> out) {
      merge(in[0], na, in[1], nb, out);
    };
    return {on_host(both, Moments::count, "metric_correlation", body), a.count + b.count};
  }
  std::vector<double> finish(std::span<const double> ready, const Total& total) const override {
    if (average == Average::macro) return PairRule::finish(ready, total);
    return {correlation(ready)};
  }
  Average average;
};

}  // namespace

MAE::MAE(std::string_view name) : EvalMetric(std::make_shared<AbsoluteError>(name)) {}
MSE::MSE(std::string_view name) : EvalMetric(std::make_shared<SquaredError>(name, false)) {}
RMSE::RMSE(std::string_view name) : EvalMetric(std::make_shared<SquaredError>(name, true)) {}
PearsonCorrelation::PearsonCorrelation(Average average, std::string_view name)
    : EvalMetric(std::make_shared<Correlation>(name, average)) {}
Loss::Loss(std::string_view name) : EvalMetric(std::make_shared<LossMean>(name)) {}

}  // namespace kaon::metric
