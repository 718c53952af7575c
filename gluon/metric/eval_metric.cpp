#include "kaon/gluon/metric/eval_metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kaon/engine/engine.h"
#include "kaon/gluon/metric/internal/metric_node.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/functions.h"

namespace kaon::metric {

using namespace ops;

namespace detail {

Total MetricRule::add(const Total& a, const Total& b) const {
  return {a.values + b.values.as_in_context(a.values.device()), a.count + b.count};
}

std::vector<double> MetricRule::finish(std::span<const double> ready, const Total& total) const {
  return {ready[0] / double(total.count)};
}

Total PairRule::score(std::span<const NDArray> labels, std::span<const NDArray> preds) const {
  Total all;
  for (size_t i = 0; i < preds.size(); ++i) {
    Total one = score(i < labels.size() ? labels[i] : NDArray(), preds[i]);
    all = i == 0 ? one : add(all, one);
  }
  return all;
}

namespace {

std::vector<double> nothing(const MetricRule& rule) {
  return std::vector<double>(rule.names().size(), std::numeric_limits<double>::quiet_NaN());
}

Task<std::vector<double>> finish_later(std::shared_ptr<const MetricRule> rule, Total total, NDArray ready) {
  if (!ready.defined()) co_return nothing(*rule);
  std::vector<double> numbers = co_await ready.host<double>();
  co_return rule->finish(numbers, total);
}

Task<double> only_value(Task<std::vector<double>> values) {
  std::vector<double> all = co_await std::move(values);
  co_return all[0];
}

// The sums of one rule.
struct SumNode : MetricNode {
  explicit SumNode(std::shared_ptr<const MetricRule> r) : rule(std::move(r)) {}

  const std::string& name() const override { return rule->name; }
  std::vector<std::string> names() const override { return rule->names(); }

  void update(std::span<const NDArray> labels, std::span<const NDArray> preds) override {
    if (rule->needs_pairs() && labels.size() != preds.size()) {
      throw ShapeError(
          fmt::format("[{}] {} label arrays but {} prediction arrays", name(), labels.size(), preds.size()));
    }
    if (preds.empty()) return;
    autograd::ModeScope mode(false, false);
    std::vector<NDArray> there(labels.begin(), labels.end());
    for (size_t i = 0; i < std::min(there.size(), preds.size()); ++i) {
      if (there[i].defined()) there[i] = there[i].as_in_context(preds[i].device());
    }
    const Total score = rule->score(there, preds);
    // New arrays each time: one that value() has been asked for must not change.
    const Total sum = global.values.defined() ? rule->add(global, score) : score;
    local = is_same ? sum : local.values.defined() ? rule->add(local, score) : score;
    global = sum;
  }

  void reset() override {
    local = global = {};
    is_same = true;
  }
  void reset_local() override {
    local = {};
    is_same = !global.values.defined();
  }

  std::vector<double> wait(bool of_all) const override {
    const NDArray numbers = ready(of_all);
    return numbers.defined() ? rule->finish(numbers.asvector<double>(), of_all ? global : local) : nothing(*rule);
  }
  Task<std::vector<double>> later(bool of_all) const override {
    return finish_later(rule, of_all ? global : local, ready(of_all));
  }
  NDArray ready(bool of_all) const override {
    const Total& total = of_all ? global : local;
    if (!total.values.defined()) return {};
    autograd::ModeScope mode(false, false);
    return rule->ready(total);
  }

  std::shared_ptr<const MetricRule> rule;
  Total local, global;
  bool is_same = true;  // local is global
};

}  // namespace

NDArray as(const NDArray& a, DType dtype) { return a.dtype() == dtype ? a : a.astype(dtype); }
NDArray as_float64(const NDArray& a) { return as(a, DType::float64); }
NDArray total_of(const NDArray& a) { return as_float64(a).sum(); }

NDArray numbers(std::initializer_list<NDArray> arrays) {
  return nd.concat(std::span<const NDArray>(arrays.begin(), arrays.size()), {.dim = 0});
}

namespace {
[[noreturn]] void throw_sizes_differ(const std::string& metric, const NDArray& labels, const NDArray& preds) {
  throw ShapeError(fmt::format("[{}] labels have shape {}, which does not fit predictions of shape {}", metric,
                               labels.shape().str(), preds.shape().str()));
}
}  // namespace

void expect_same_size(const std::string& metric, const NDArray& labels, const NDArray& preds) {
  if (labels.size() != preds.size()) throw_sizes_differ(metric, labels, preds);
}

NDArray classes_of(const std::string& metric, const NDArray& labels, const NDArray& preds, int axis) {
  NDArray classes = preds;
  if (preds.shape() != labels.shape()) {
    // narrow dtypes do not hold the number of every class
    classes = nd.argmax(size_of(preds.dtype()) < 4 ? preds.astype(DType::float32) : preds, {.axis = axis});
  }
  if (labels.size() != classes.size()) throw_sizes_differ(metric, labels, preds);
  return classes.reshape({-1});
}

NDArray on_host(std::span<const NDArray> inputs, int64_t size, const char* label, HostBody body) {
  NDArray out = NDArray::empty({size}, DType::float64);
  std::vector<IntrusivePtr<ArrayNode>> nodes;
  std::vector<Access> accesses{write(out.var())};
  for (const NDArray& input : inputs) {
    const NDArray there = as_float64(input).as_in_context(Device());
    nodes.push_back(there.ptr());
    accesses.push_back(read(there.var()));
  }
  auto run = [nodes, to = out.ptr(), body = std::move(body)](RunContext&) {
    std::vector<std::span<const double>> values;
    for (const auto& n : nodes) values.emplace_back(static_cast<const double*>(n->data()), size_t(n->shape.size()));
    body(values, {static_cast<double*>(to->data()), size_t(to->shape.size())});
  };
  out.engine().push(accesses, std::move(run), {.label = {label, std::source_location::current()}});
  return out;
}

}  // namespace detail

EvalMetric::EvalMetric(std::shared_ptr<detail::MetricRule> rule)
    : node_(std::make_shared<detail::SumNode>(std::move(rule))) {}

const std::string& EvalMetric::name() const { return node_->name(); }
std::vector<std::string> EvalMetric::names() const { return node_->names(); }
void EvalMetric::reset() { node_->reset(); }
void EvalMetric::reset_local() { node_->reset_local(); }

void EvalMetric::update(const NDArray& labels, const NDArray& preds) { node_->update({&labels, 1}, {&preds, 1}); }
void EvalMetric::update(std::span<const NDArray> labels, std::span<const NDArray> preds) {
  node_->update(labels, preds);
}

namespace {

void expect_one(const detail::MetricNode& node, const char* function) {
  if (const size_t count = node.names().size(); count != 1) {
    throw StateError(fmt::format("[{}] {}: the metric has {} values; call get_name_value() or values()", node.name(),
                                 function, count));
  }
}

std::vector<std::pair<std::string, double>> named(const detail::MetricNode& node, bool global) {
  const std::vector<std::string> names = node.names();
  const std::vector<double> values = node.wait(global);
  std::vector<std::pair<std::string, double>> all;
  for (size_t i = 0; i < names.size(); ++i) all.emplace_back(names[i], values[i]);
  return all;
}

}  // namespace

std::pair<std::string, double> EvalMetric::get() const {
  expect_one(*node_, "get");
  return {node_->names()[0], node_->wait(false)[0]};
}
std::pair<std::string, double> EvalMetric::get_global() const {
  expect_one(*node_, "get_global");
  return {node_->names()[0], node_->wait(true)[0]};
}
std::vector<std::pair<std::string, double>> EvalMetric::get_name_value() const { return named(*node_, false); }
std::vector<std::pair<std::string, double>> EvalMetric::get_global_name_value() const { return named(*node_, true); }

Task<double> EvalMetric::value() const {
  expect_one(*node_, "value");
  return detail::only_value(node_->later(false));
}
Task<double> EvalMetric::global_value() const {
  expect_one(*node_, "global_value");
  return detail::only_value(node_->later(true));
}
Task<std::vector<double>> EvalMetric::values() const { return node_->later(false); }
Task<std::vector<double>> EvalMetric::global_values() const { return node_->later(true); }

}  // namespace kaon::metric
