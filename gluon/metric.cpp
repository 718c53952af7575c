#include "kaon/gluon/metric.h"

#include <fmt/format.h>

#include <limits>

#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"

namespace kaon::metric {

struct EvalMetric::State {
  std::string name;
  NDArray sum;  // float64 (1,); undefined before the first update
  int64_t count = 0;
};

EvalMetric::EvalMetric(std::string_view name) : state_(std::make_shared<State>()) { state_->name = name; }

const std::string& EvalMetric::name() const { return state_->name; }

void EvalMetric::update(const NDArray& labels, const NDArray& preds) {
  autograd::ModeScope mode(false, false);
  Score s = score(labels, preds);
  NDArray sum = s.sum.dtype() == DType::float64 ? s.sum : s.sum.astype(DType::float64);
  // A new array each time: one that value() has been asked for must not change.
  state_->sum = state_->sum.defined() ? state_->sum + sum : sum;
  state_->count += s.count;
}

void EvalMetric::update(std::span<const NDArray> labels, std::span<const NDArray> preds) {
  if (labels.size() != preds.size()) {
    throw ShapeError(fmt::format("[{}] {} label arrays but {} prediction arrays", name(), labels.size(), preds.size()));
  }
  for (size_t i = 0; i < labels.size(); ++i) update(labels[i], preds[i]);
}

void EvalMetric::reset() {
  state_->sum = NDArray();
  state_->count = 0;
}

std::pair<std::string, double> EvalMetric::get() const {
  double value = std::numeric_limits<double>::quiet_NaN();
  if (state_->count > 0) value = finish()(state_->sum.asscalar<double>() / double(state_->count));
  return {name(), value};
}

namespace {
Task<double> wait_for(NDArray sum, int64_t count, double (*finish)(double)) {
  if (count == 0) co_return std::numeric_limits<double>::quiet_NaN();
  double total = co_await sum.item<double>();
  co_return finish(total / double(count));
}
}  // namespace

Task<double> EvalMetric::value() const { return wait_for(state_->sum, state_->count, finish()); }

namespace {

void expect_same_size(const std::string& metric, const NDArray& labels, const NDArray& preds) {
  if (labels.size() != preds.size()) {
    throw ShapeError(fmt::format("[{}] labels have shape {}, which does not fit predictions of shape {}", metric,
                                 labels.shape().str(), preds.shape().str()));
  }
}

NDArray as(const NDArray& a, DType dtype) { return a.dtype() == dtype ? a : a.astype(dtype); }

// label - pred, in the dtype of pred.
NDArray difference(const std::string& metric, const NDArray& labels, const NDArray& preds) {
  expect_same_size(metric, labels, preds);
  return as(labels, preds.dtype()).reshape(preds.shape()) - preds;
}

// preds (batch, classes) at the labels (batch,), as (batch, 1).
NDArray at_labels(const std::string& metric, const NDArray& labels, const NDArray& preds) {
  if (preds.ndim() != 2 || labels.size() != preds.shape()[0]) {
    throw ShapeError(fmt::format("[{}] predictions (batch, classes) and labels (batch,) are needed, got {} and {}",
                                 metric, preds.shape().str(), labels.shape().str()));
  }
  return nd.pick(preds, labels.reshape({-1}), {.axis = 1, .keepdims = true});
}

}  // namespace

EvalMetric::Score Accuracy::score(const NDArray& labels, const NDArray& preds) const {
  // narrow dtypes do not hold the number of every class
  auto best = [&] {
    return nd.argmax(size_of(preds.dtype()) < 4 ? preds.astype(DType::float32) : preds, {.axis = axis_});
  };
  NDArray classes = preds.shape() == labels.shape() ? preds : best();
  expect_same_size(name(), labels, classes);
  // float32 holds every class number below 2^24, and float64 every count.
  NDArray is_right = as(labels, DType::float32).reshape({-1}) == as(classes, DType::float32).reshape({-1});
  return {as(is_right, DType::float64).sum(), labels.size()};
}

TopKAccuracy::TopKAccuracy(int top_k) : EvalMetric(fmt::format("top_k_accuracy_{}", top_k)), top_k_(top_k) {
  if (top_k < 1) throw ValueError(fmt::format("[TopKAccuracy] top_k must be at least 1, got {}", top_k));
}

EvalMetric::Score TopKAccuracy::score(const NDArray& labels, const NDArray& preds) const {
  NDArray own = at_labels(name(), labels, preds);
  NDArray higher = nd.sum(preds > own, {.axis = {1}, .keepdims = true});
  NDArray is_right = (higher < top_k_) * (own == own);  // nothing is higher than NaN
  return {as(is_right, DType::float64).sum(), labels.size()};
}

EvalMetric::Score MAE::score(const NDArray& labels, const NDArray& preds) const {
  return {nd.abs(difference(name(), labels, preds)).sum(), preds.size()};
}

EvalMetric::Score MSE::score(const NDArray& labels, const NDArray& preds) const {
  return {nd.square(difference(name(), labels, preds)).sum(), preds.size()};
}

EvalMetric::Score CrossEntropy::score(const NDArray& labels, const NDArray& preds) const {
  return {-nd.log(at_labels(name(), labels, preds) + eps_).sum(), labels.size()};
}

EvalMetric::Score Loss::score(const NDArray&, const NDArray& preds) const { return {preds.sum(), preds.size()}; }

}  // namespace kaon::metric
