#include "kaon/gluon/metric/composite.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/gluon/metric.h"
#include "kaon/gluon/metric/internal/metric_node.h"

namespace kaon::metric {
namespace {

using namespace detail;

Task<std::vector<double>> all_of(std::vector<Task<std::vector<double>>> tasks) {
  std::vector<double> all;
  for (auto& task : tasks) {
    std::vector<double> some = co_await std::move(task);
    all.insert(all.end(), some.begin(), some.end());
  }
  co_return all;
}

struct CompositeNode : MetricNode {
  explicit CompositeNode(std::string_view name) : own_name(name) {}

  const std::string& name() const override { return own_name; }
  void update(std::span<const NDArray> labels, std::span<const NDArray> preds) override {
    for (const auto& child : children) child->update(labels, preds);
  }
  void reset() override {
    for (const auto& child : children) child->reset();
  }
  void reset_local() override {
    for (const auto& child : children) child->reset_local();
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& child : children) {
      for (std::string& one : child->names()) all.push_back(std::move(one));
    }
    return all;
  }
  NDArray ready(bool) const override { return {}; }
  std::vector<double> wait(bool global) const override {
    std::vector<double> all;
    for (const auto& child : children) {
      const std::vector<double> some = child->wait(global);
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
  Task<std::vector<double>> later(bool global) const override {
    std::vector<Task<std::vector<double>>> tasks;
    for (const auto& child : children) tasks.push_back(child->later(global));
    return all_of(std::move(tasks));
  }
  bool contains(const MetricNode* other) const {
    return other == this || std::any_of(children.begin(), children.end(), [&](const auto& child) {
             const auto* composite = dynamic_cast<const CompositeNode*>(child.get());
             return composite && composite->contains(other);
           });
  }

  std::string own_name;
  std::vector<std::shared_ptr<MetricNode>> children;
  std::vector<EvalMetric> metrics;
};

// Options that a metric takes, by their names in MXNet.
class Options {
 public:
  Options(std::string_view metric, const MetricOptions& given) : metric_(metric), given_(given) {
    const auto note = [&](const char* name, bool is_given) {
      if (is_given) unused_.emplace_back(name);
    };
    note("axis", given.axis.has_value());
    note("top_k", given.top_k.has_value());
    note("average", given.average.has_value());
    note("eps", given.eps.has_value());
    note("ignore_label", given.ignore_label.has_value());
    note("num_classes", given.num_classes.has_value());
  }
  int axis(int other) { return take("axis"), given_.axis.value_or(other); }
  Average average() { return take("average"), given_.average.value_or(Average::macro); }
  double eps() { return take("eps"), given_.eps.value_or(1e-12); }
  std::optional<int64_t> ignore_label() { return take("ignore_label"), given_.ignore_label; }
  int top_k() { return take("top_k"), given_.top_k ? *given_.top_k : missing<int>("top_k"); }
  int64_t num_classes() {
    return take("num_classes"), given_.num_classes ? *given_.num_classes : missing<int64_t>("num_classes");
  }
  void check_all_used() const {
    if (unused_.empty()) return;
    throw ValueError(fmt::format("[metric::create] '{}' takes no option {}", metric_, unused_[0]));
  }

 private:
  void take(std::string_view name) { std::erase(unused_, name); }
  template <class T>
  T missing(const char* name) const {
    throw ValueError(fmt::format("[metric::create] '{}' needs the option {}", metric_, name));
  }
  std::string metric_;
  const MetricOptions& given_;
  std::vector<std::string> unused_;
};

struct Registered {
  std::vector<std::string_view> names;
  EvalMetric (*make)(Options&);
};

const std::vector<Registered>& registry() {
  static const std::vector<Registered>* all = new std::vector<Registered>{
      {{"accuracy", "acc"}, [](Options& o) -> EvalMetric { return Accuracy(o.axis(1)); }},
      {{"topkaccuracy", "top_k_accuracy", "top_k_acc"},
       [](Options& o) -> EvalMetric { return TopKAccuracy(o.top_k()); }},
      {{"f1"}, [](Options& o) -> EvalMetric { return F1(o.average()); }},
      {{"mcc"}, [](Options& o) -> EvalMetric { return MCC(o.average()); }},
      {{"perplexity"}, [](Options& o) -> EvalMetric { return Perplexity(o.ignore_label(), o.axis(-1)); }},
      {{"mae"}, [](Options&) -> EvalMetric { return MAE(); }},
      {{"mse"}, [](Options&) -> EvalMetric { return MSE(); }},
      {{"rmse"}, [](Options&) -> EvalMetric { return RMSE(); }},
      {{"crossentropy", "cross-entropy", "ce"}, [](Options& o) -> EvalMetric { return CrossEntropy(o.eps()); }},
      {{"negativeloglikelihood", "nll_loss"}, [](Options& o) -> EvalMetric { return NegativeLogLikelihood(o.eps()); }},
      {{"pearsoncorrelation", "pearsonr"}, [](Options& o) -> EvalMetric { return PearsonCorrelation(o.average()); }},
      {{"pcc"}, [](Options&) -> EvalMetric { return PCC(); }},
      {{"loss"}, [](Options&) -> EvalMetric { return Loss(); }},
      {{"torch"}, [](Options&) -> EvalMetric { return Torch(); }},
      {{"caffe"}, [](Options&) -> EvalMetric { return Caffe(); }},
      {{"compositeevalmetric", "composite"}, [](Options&) -> EvalMetric { return CompositeEvalMetric(); }},
      {{"auc"}, [](Options&) -> EvalMetric { return AUC(); }},
      {{"confusionmatrix"}, [](Options& o) -> EvalMetric { return ConfusionMatrix(o.num_classes()); }},
      {{"perclassf1"}, [](Options& o) -> EvalMetric { return PerClassF1(o.num_classes()); }},
  };
  return *all;
}

}  // namespace

CompositeEvalMetric::CompositeEvalMetric(std::vector<EvalMetric> metrics, std::string_view name)
    : EvalMetric(std::make_shared<CompositeNode>(name)) {
  for (const EvalMetric& m : metrics) add(m);
}

void CompositeEvalMetric::add(const EvalMetric& metric) {
  auto& own = static_cast<CompositeNode&>(node());
  const auto* composite = dynamic_cast<const CompositeNode*>(metric.node_.get());
  if (composite && composite->contains(&own)) {
    throw ValueError(fmt::format("[{}] a metric cannot be a part of itself: '{}'", own.own_name, metric.name()));
  }
  own.children.push_back(metric.node_);
  own.metrics.push_back(metric);
}

EvalMetric CompositeEvalMetric::get_metric(size_t index) const {
  const auto& own = static_cast<const CompositeNode&>(node());
  if (index >= own.metrics.size()) {
    throw IndexError(fmt::format("[{}] there is no metric {}: it has {}", own.own_name, index, own.metrics.size()));
  }
  return own.metrics[index];
}

std::pair<std::vector<std::string>, std::vector<double>> CompositeEvalMetric::get() const {
  return {node().names(), node().wait(false)};
}
std::pair<std::vector<std::string>, std::vector<double>> CompositeEvalMetric::get_global() const {
  return {node().names(), node().wait(true)};
}

EvalMetric create(std::string_view name, const MetricOptions& options) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  std::string names;
  for (const Registered& r : registry()) {
    if (std::find(r.names.begin(), r.names.end(), lower) == r.names.end()) {
      for (std::string_view one : r.names) names += fmt::format("{}{}", names.empty() ? "" : ", ", one);
      continue;
    }
    Options given(name, options);
    EvalMetric metric = r.make(given);
    given.check_all_used();
    return metric;
  }
  if (lower == "custommetric" || lower == "np") {
    throw ValueError(fmt::format("[metric::create] '{}' needs a function: write metric::CustomMetric(function)", name));
  }
  throw ValueError(fmt::format("[metric::create] there is no metric '{}'; there are: {}", name, names));
}

CompositeEvalMetric create(const std::vector<std::string>& names, const MetricOptions& options) {
  CompositeEvalMetric all;
  for (const std::string& name : names) all.add(create(name, options));
  return all;
}

}  // namespace kaon::metric
