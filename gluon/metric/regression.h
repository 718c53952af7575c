// Metrics of numbers: MAE, MSE, RMSE, PearsonCorrelation; the mean of losses.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/metric/eval_metric.h"

namespace KAON_API kaon {
namespace metric {

// The mean of |label - pred| over all elements of all batches; MXNet's MAE, MSE and RMSE are means of the batches'
// figures (docs/differences.md).
class MAE : public EvalMetric {
 public:
  explicit MAE(std::string_view name = "mae");
};

// The mean of (label - pred)^2 over all elements.
class MSE : public EvalMetric {
 public:
  explicit MSE(std::string_view name = "mse");
};

// The square root of the mean over all elements.
class RMSE : public EvalMetric {
 public:
  explicit RMSE(std::string_view name = "rmse");
};

// Pearson's correlation of labels and preds, of one size; with Average::macro the mean of the batches' figures. NaN
// where one of the two does not vary. In float64.
class PearsonCorrelation : public EvalMetric {
 public:
  explicit PearsonCorrelation(Average average = Average::macro, std::string_view name = "pearsonr");
};

// The mean of the elements of preds; labels may be undefined.
class Loss : public EvalMetric {
 public:
  explicit Loss(std::string_view name = "loss");
};

// MXNet's other names for Loss.
class Torch : public Loss {
 public:
  explicit Torch(std::string_view name = "torch") : Loss(name) {}
};
class Caffe : public Loss {
 public:
  explicit Caffe(std::string_view name = "caffe") : Loss(name) {}
};

}  // namespace metric
}  // namespace kaon
