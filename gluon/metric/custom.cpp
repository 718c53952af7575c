#include "kaon/gluon/metric/custom.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "kaon/gluon/metric/internal/metric_node.h"
#include "kaon/ops/functions.h"

namespace kaon::metric {
namespace {

using namespace detail;

// The values are the sum and how many it is of.
struct CustomRule : MetricRule {
  CustomRule(std::string_view name, bool extra) : MetricRule(name), extra(extra) {}
  bool needs_pairs() const override { return !extra; }
  Total score(std::span<const NDArray> labels, std::span<const NDArray> preds) const override {
    NDArray sum = nd.zeros({2}, {.dtype = DType::float64});
    for (size_t i = 0; i < std::min(labels.size(), preds.size()); ++i) {
      const NDArray one = score_of(labels[i], preds[i]);
      sum = i == 0 ? one : sum + one.as_in_context(sum.device());
    }
    return {sum, 0};
  }
  std::vector<double> finish(std::span<const double> sums, const Total&) const override { return {sums[0] / sums[1]}; }
  virtual NDArray score_of(const NDArray& label, const NDArray& pred) const = 0;
  bool extra;
};

struct ArrayRule : CustomRule {
  ArrayRule(std::string_view name, bool extra, CustomFunction f) : CustomRule(name, extra), function(std::move(f)) {}
  NDArray score_of(const NDArray& label, const NDArray& pred) const override {
    const CustomScore score = function(label, pred);
    if (!score.array.defined()) return nd.array({score.sum, double(score.count)}, {2}, {.dtype = DType::float64});
    if (score.array.size() != 1) {
      throw ShapeError(fmt::format("[{}] the function must give an array of one element, got shape {}", name,
                                   score.array.shape().str()));
    }
    const Device device = score.array.device();
    return numbers({as_float64(score.array).reshape({1}),
                    nd.full({1}, double(score.count), {.dtype = DType::float64, .device = device})});
  }
  CustomFunction function;
};

struct HostRule : CustomRule {
  HostRule(std::string_view name, bool extra, HostFunction f)
      : CustomRule(name, extra), shared(std::make_shared<Shared>(std::move(f))) {}
  NDArray score_of(const NDArray& label, const NDArray& pred) const override {
    const NDArray both[] = {label, pred};
    auto body = [shared = shared](auto in, std::span<double> out) {
      std::lock_guard lock(shared->one_at_a_time);
      const auto [sum, count] = shared->function(in[0], in[1]);
      out[0] = sum, out[1] = double(count);
    };
    return on_host(both, 2, "metric_custom", body);
  }
  struct Shared {
    explicit Shared(HostFunction f) : function(std::move(f)) {}
    HostFunction function;
    std::mutex one_at_a_time;
  };
  std::shared_ptr<Shared> shared;
};

}  // namespace

CustomMetric::CustomMetric(std::shared_ptr<detail::MetricRule> rule) : EvalMetric(std::move(rule)) {}

std::shared_ptr<detail::MetricRule> detail::custom_rule(CustomFunction function, std::string_view name, bool extra) {
  return std::make_shared<ArrayRule>(name, extra, std::move(function));
}

CustomMetric make_np(HostFunction function, std::string_view name, bool allow_extra_outputs) {
  return CustomMetric(std::make_shared<HostRule>(name, allow_extra_outputs, std::move(function)));
}

}  // namespace kaon::metric
