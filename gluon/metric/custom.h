// CustomMetric: a metric that is any callable.
#pragma once

#include <concepts>
#include <functional>
#include <span>

#include "kaon/engine/api.h"
#include "kaon/gluon/metric/eval_metric.h"

namespace KAON_API kaon {
namespace metric {

namespace detail {

// What a callable gives for a pair of arrays: a number, which counts as one sample, or a sum and how many it is of.
struct CustomScore {
  NDArray array;  // one element, where it is computed by the engine
  double sum = 0;
  int64_t count = 1;

  CustomScore(NDArray a) : array(std::move(a)) {}
  CustomScore(double s) : sum(s) {}
  template <class Sum, std::integral Count>
  CustomScore(const std::pair<Sum, Count>& p) : CustomScore(p.first) {
    count = int64_t(p.second);
  }
};
using CustomFunction = std::function<CustomScore(const NDArray& label, const NDArray& pred)>;
using HostFunction = std::function<std::pair<double, int64_t>(std::span<const double>, std::span<const double>)>;

KAON_API std::shared_ptr<MetricRule> custom_rule(CustomFunction function, std::string_view name, bool extra);

}  // namespace detail

// The mean of what `function` gives for each pair (label, pred): a number, or a std::pair of a sum and the number of
// samples in it. Numbers are arrays of one element, which keep update() from waiting, or doubles. With
// allow_extra_outputs the lists of labels and predictions may differ in length.
//
//     metric::CustomMetric worst([](const NDArray& label, const NDArray& pred) { return nd.max(nd.abs(label - pred));
//     });
class CustomMetric : public EvalMetric {
 public:
  template <class F>
    requires std::is_invocable_r_v<detail::CustomScore, F&, const NDArray&, const NDArray&>
  explicit CustomMetric(F function, std::string_view name = "custom", bool allow_extra_outputs = false)
      : CustomMetric(detail::custom_rule(std::move(function), name, allow_extra_outputs)) {}

 private:
  friend CustomMetric make_np(detail::HostFunction function, std::string_view name, bool allow_extra_outputs);
  explicit CustomMetric(std::shared_ptr<detail::MetricRule> rule);
};

KAON_API CustomMetric make_np(detail::HostFunction function, std::string_view name, bool allow_extra_outputs);

// A CustomMetric of a function of values, (std::span<const double> label, std::span<const double> pred), which gives a
// double, or a std::pair of a sum and a count. The engine calls it once the arrays are computed, on any thread, one
// batch at a time and in any order: it must not wait for arrays. What it throws, get() and value() throw.
template <class F>
  requires std::invocable<F&, std::span<const double>, std::span<const double>> CustomMetric
  np(F function, std::string_view name = "custom", bool allow_extra_outputs = false) {
    auto scores = [function = std::move(function)](std::span<const double> label,
                                                   std::span<const double> pred) mutable {
      const auto score = function(label, pred);
      if constexpr (std::is_convertible_v<decltype(score), double>) {
        return std::pair(double(score), int64_t(1));
      } else {
        return std::pair(double(score.first), int64_t(score.second));
      }
    };
    return make_np(detail::HostFunction(std::move(scores)), name, allow_extra_outputs);
  }

}  // namespace metric
}  // namespace kaon
