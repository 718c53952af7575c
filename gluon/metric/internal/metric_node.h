// What a metric's handle refers to: a rule for the scores of a batch, and their sums.
#pragma once

#include <functional>
#include <span>

#include "kaon/engine/task.h"
#include "kaon/gluon/metric/eval_metric.h"

namespace kaon::metric::detail {

// What a rule adds up besides numbers. It does not change once it is in a Total.
struct Kept {
  virtual ~Kept() = default;
};

// Scores of some batches.
struct Total {
  NDArray values;     // float64 (n,), which the rule gives a meaning; undefined: no batch
  int64_t count = 0;  // of samples or batches
  std::shared_ptr<const Kept> kept{};
};

// Stateless: Tasks hold it and outlive the metric. Its functions push and do not wait.
struct MetricRule {
  explicit MetricRule(std::string_view name) : name(name) {}
  virtual ~MetricRule() = default;

  // Of one update. The lists have one length, and labels are on the devices of their predictions.
  virtual Total score(std::span<const NDArray> labels, std::span<const NDArray> preds) const = 0;
  virtual bool needs_pairs() const { return true; }  // false: the lists may differ in length, labels may be undefined
  virtual Total add(const Total& a, const Total& b) const;
  // The numbers that finish() needs, computed in the background.
  virtual NDArray ready(const Total& total) const { return total.values; }
  // The metric's values from them; by default their mean. `total` is where an update has been.
  virtual std::vector<double> finish(std::span<const double> ready, const Total& total) const;
  virtual std::vector<std::string> names() const { return {name}; }

  const std::string name;
};

// A rule that scores pairs of arrays, each for itself.
struct PairRule : MetricRule {
  using MetricRule::MetricRule;
  Total score(std::span<const NDArray> labels, std::span<const NDArray> preds) const override;
  virtual Total score(const NDArray& label, const NDArray& pred) const = 0;
};

struct MetricNode {
  virtual ~MetricNode() = default;
  virtual const std::string& name() const = 0;
  virtual void update(std::span<const NDArray> labels, std::span<const NDArray> preds) = 0;
  virtual void reset() = 0;
  virtual void reset_local() = 0;
  virtual std::vector<std::string> names() const = 0;
  virtual NDArray ready(bool global) const = 0;             // of the rule; undefined: no update, or no rule
  virtual std::vector<double> wait(bool global) const = 0;  // blocks
  virtual Task<std::vector<double>> later(bool global) const = 0;
};

// --- what rules share

NDArray as(const NDArray& a, DType dtype);
NDArray as_float64(const NDArray& a);
// The sum of all elements, float64 (1,).
NDArray total_of(const NDArray& a);
// float64 (n,) of n arrays (1,) of float64.
NDArray numbers(std::initializer_list<NDArray> arrays);
void expect_same_size(const std::string& metric, const NDArray& labels, const NDArray& preds);
// Class numbers (batch,): preds themselves where they have labels' shape, else the index of the largest along `axis`.
NDArray classes_of(const std::string& metric, const NDArray& labels, const NDArray& preds, int axis);

using HostBody = std::function<void(std::span<const std::span<const double>> inputs, std::span<double> out)>;
// Calls `body` with the elements of the inputs, as an operation on the host once they are there. Gives `out`, float64
// (size,). What the body throws fails that array.
NDArray on_host(std::span<const NDArray> inputs, int64_t size, const char* label, HostBody body);

}  // namespace kaon::metric::detail
