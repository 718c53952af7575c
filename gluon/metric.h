// Metrics: figures over many batches, added up on the engine.
#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "kaon/engine/api.h"
#include "kaon/engine/task.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace metric {

// update() pushes and returns; get() blocks until the sum is computed; in a coroutine write `co_await metric.value()`.
// A failed batch makes both throw its failure until reset(). A handle: a copy is the same metric. Thread safety: one
// thread.
class EvalMetric {
 public:
  virtual ~EvalMetric() = default;
  const std::string& name() const;
  // Adds the scores of a batch. Throws ShapeError when the two do not fit.
  void update(const NDArray& labels, const NDArray& preds);
  void update(std::span<const NDArray> labels, std::span<const NDArray> preds);  // pair by pair
  std::pair<std::string, double> get() const;  // name and value; blocks; NaN before the first update
  Task<double> value() const;                  // the value over the updates before this call
  void reset();                                // forgets all updates

 protected:
  // A sum over some samples (one element, any dtype) and how many they are.
  struct Score {
    NDArray sum;
    int64_t count;
  };
  explicit EvalMetric(std::string_view name);
  EvalMetric(const EvalMetric&) = default;
  EvalMetric& operator=(const EvalMetric&) = default;

  virtual Score score(const NDArray& labels, const NDArray& preds) const = 0;
  // The value from the mean of the scores. Static, since a Task may outlive the metric.
  using Finish = double (*)(double mean);
  virtual Finish finish() const {
    return [](double mean) { return mean; };
  }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// The share of `preds` that are right: the index of the largest along `axis`, or preds themselves when they have
// labels' shape.
class Accuracy : public EvalMetric {
 public:
  explicit Accuracy(int axis = 1) : EvalMetric("accuracy"), axis_(axis) {}

 protected:
  Score score(const NDArray& labels, const NDArray& preds) const override;

 private:
  int axis_;
};

// The share of labels (batch,) for which fewer than top_k classes have a higher score in preds (batch, classes). Throws
// ValueError for top_k below 1.
class TopKAccuracy : public EvalMetric {
 public:
  explicit TopKAccuracy(int top_k);

 protected:
  Score score(const NDArray& labels, const NDArray& preds) const override;

 private:
  int top_k_;
};

// The mean of |label - pred| over all elements of all batches; MXNet's MAE, MSE and RMSE are means of the batches'
// figures (docs/differences.md).
class MAE : public EvalMetric {
 public:
  MAE() : EvalMetric("mae") {}

 protected:
  Score score(const NDArray& labels, const NDArray& preds) const override;
};

// The mean of (label - pred)^2 over all elements.
class MSE : public EvalMetric {
 public:
  MSE() : EvalMetric("mse") {}

 protected:
  using EvalMetric::EvalMetric;
  Score score(const NDArray& labels, const NDArray& preds) const override;
};

// The square root of the mean over all elements.
class RMSE : public MSE {
 public:
  RMSE() : MSE("rmse") {}

 protected:
  Finish finish() const override {
    return [](double mean) { return std::sqrt(mean); };
  }
};

// The mean of -log(p + eps), p being the probability that preds (batch, classes) give to the label (batch,).
class CrossEntropy : public EvalMetric {
 public:
  explicit CrossEntropy(double eps = 1e-12) : EvalMetric("cross-entropy"), eps_(eps) {}

 protected:
  Score score(const NDArray& labels, const NDArray& preds) const override;

 private:
  double eps_;
};

// The mean of the elements of preds; labels may be undefined.
class Loss : public EvalMetric {
 public:
  Loss() : EvalMetric("loss") {}

 protected:
  Score score(const NDArray& labels, const NDArray& preds) const override;
};

}  // namespace metric
}  // namespace kaon
