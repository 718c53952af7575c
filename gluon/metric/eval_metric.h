// EvalMetric: a figure over many batches, added up on the engine.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/task.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace metric {

namespace detail {
struct MetricNode;
struct MetricRule;
}  // namespace detail

// How figures of several batches become one: macro is the mean of the batches' figures, micro the figure of all
// samples.
enum class Average : uint8_t { macro, micro };

// The mean over the samples of all updates, unless the metric says otherwise; NaN before the first. update() pushes and
// returns; get() blocks until the sums are computed; in a coroutine write `co_await metric.value()`. A failed batch
// makes both throw its failure until reset(). There are two sums: what reset_local() forgets, and all since reset(),
// which the functions named global give. A handle: a copy is the same metric. Thread safety: one thread.
class EvalMetric {
 public:
  const std::string& name() const;
  // Adds the scores of a batch. Labels on another device are copied to that of the predictions. Throws ShapeError when
  // the two do not fit.
  void update(const NDArray& labels, const NDArray& preds);
  void update(std::span<const NDArray> labels, std::span<const NDArray> preds);  // pair by pair
  // Name and value; blocks. Throws StateError for a metric that has several values.
  std::pair<std::string, double> get() const;
  std::pair<std::string, double> get_global() const;
  Task<double> value() const;  // the value over the updates before this call; throws as get() does
  Task<double> global_value() const;
  // All values, of which most metrics have one, with their names; blocks.
  std::vector<std::pair<std::string, double>> get_name_value() const;
  std::vector<std::pair<std::string, double>> get_global_name_value() const;
  Task<std::vector<double>> values() const;
  Task<std::vector<double>> global_values() const;
  std::vector<std::string> names() const;  // of the values
  void reset();                            // forgets all updates
  void reset_local();                      // forgets them, but for the global values
  // Whether both are handles of one metric.
  bool is_same(const EvalMetric& other) const { return node_ == other.node_; }

 protected:
  explicit EvalMetric(std::shared_ptr<detail::MetricRule> rule);
  explicit EvalMetric(std::shared_ptr<detail::MetricNode> node) : node_(std::move(node)) {}
  detail::MetricNode& node() const { return *node_; }

 private:
  friend class CompositeEvalMetric;
  std::shared_ptr<detail::MetricNode> node_;
};

}  // namespace metric
}  // namespace kaon
