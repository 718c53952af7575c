// Metrics of probabilities that were given to the right class: CrossEntropy, NegativeLogLikelihood, Perplexity.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/gluon/metric/eval_metric.h"

namespace KAON_API kaon {
namespace metric {

// The mean of -log(p + eps), p being the probability that preds (batch, classes) give to the label (batch,).
class CrossEntropy : public EvalMetric {
 public:
  explicit CrossEntropy(double eps = 1e-12, std::string_view name = "cross-entropy");
};

// The same under another name.
class NegativeLogLikelihood : public EvalMetric {
 public:
  explicit NegativeLogLikelihood(double eps = 1e-12, std::string_view name = "nll-loss");
};

// e to the mean of -log(max(p, 1e-10)), p being the probability that preds give to the label; classes are along `axis`,
// labels have the shape of preds without it, or its size. Labels equal to ignore_label do not count.
class Perplexity : public EvalMetric {
 public:
  explicit Perplexity(std::optional<int64_t> ignore_label, int axis = -1, std::string_view name = "perplexity");
};

}  // namespace metric
}  // namespace kaon
