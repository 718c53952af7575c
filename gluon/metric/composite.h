// CompositeEvalMetric: several metrics as one; create: metrics by name.
#pragma once

#include <optional>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/metric/eval_metric.h"

namespace KAON_API kaon {
namespace metric {

// Updates all its metrics, which it shares with other handles, by the same arrays.
class CompositeEvalMetric : public EvalMetric {
 public:
  explicit CompositeEvalMetric(std::vector<EvalMetric> metrics = {}, std::string_view name = "composite");
  // Throws ValueError for a metric that contains this one.
  void add(const EvalMetric& metric);
  EvalMetric get_metric(size_t index) const;  // throws IndexError
  // The names of all values, and the values; blocks.
  std::pair<std::vector<std::string>, std::vector<double>> get() const;
  std::pair<std::vector<std::string>, std::vector<double>> get_global() const;
};

// What create() passes on; a metric takes those that its constructor has.
struct MetricOptions {
  std::optional<int> axis{};
  std::optional<int> top_k{};
  std::optional<Average> average{};
  std::optional<double> eps{};
  std::optional<int64_t> ignore_label{};
  std::optional<int64_t> num_classes{};
};

// A metric by the name of its class or by MXNet's other names for it, in any case: "acc", "ce", "nll_loss", "pearsonr",
// "top_k_acc", "composite". Throws ValueError, listing the names, for one that there is not, for an option that the
// metric does not take and for one that it needs.
KAON_API EvalMetric create(std::string_view name, const MetricOptions& options = {});
// Several of them as one.
KAON_API CompositeEvalMetric create(const std::vector<std::string>& names, const MetricOptions& options = {});

}  // namespace metric
}  // namespace kaon
