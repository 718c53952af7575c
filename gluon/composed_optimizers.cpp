// Optimizers whose steps are computed by operators on arrays. One operator then changes all weights and states, or
// none.
#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <functional>

#include "kaon/gluon/internal/described_rule.h"
#include "kaon/gluon/optimizer.h"
#include "kaon/ops/functions.h"

namespace kaon::optimizer {
namespace {

DType computed_in(DType weight) { return weight == DType::float64 ? DType::float64 : DType::float32; }
NDArray as(const NDArray& a, DType dtype) { return a.dtype() == dtype ? a : nd.cast(a, dtype); }

// Arrays that _kaon_multi_update changes by rule sgd: target <- (1 - decay) target - change.
class Changes {
 public:
  void add(const NDArray& target, const NDArray& change) {
    pointers_.push_back(&target);
    pointers_.push_back(&held_.emplace_back(as(change, target.dtype())));
  }
  // numbers: lr, wd and what else a rule has, of each target. factor: undefined, or 0 where nothing is to change.
  NDArray apply(const NDArray& numbers, const NDArray& factor, const std::source_location& site) {
    pointers_.push_back(&numbers);
    if (factor.defined()) pointers_.push_back(&factor);
    return nd._kaon_multi_update2(pointers_, {}, site);
  }

 private:
  std::deque<NDArray> held_;
  std::vector<const NDArray*> pointers_;
};

// Of one weight, in the dtype that it is updated in.
struct WeightView {
  const NDArray& target;  // the float32 copy, where there is one
  NDArray gradient;       // rescaled and clipped
  const NDArray* states;  // of the rule
};

// Numbers of a weight: 1 for each of its targets, then the decay for each, 1 and 1, as _kaon_multi_update has them;
// then the rule's own; then 1, 0, 1, 1 by which weights become what their copies are. Targets of all weights have the
// same numbers, but for decays, which only a rule with one target has.
class ComposedRule : public detail::DescribedRule {
 public:
  explicit ComposedRule(bool multi_precision) : multi_precision_(multi_precision) {}

  int num_states() const final { return own_states() + int(multi_precision_); }
  RuleState state(int k, const Shape& weight, DType dtype) const final {
    if (k < own_states()) return own_state(weight, dtype);
    if (!ops::is_half(dtype)) return {Shape(0), DType::float32};
    return {weight, DType::float32, true};
  }
  bool takes_factor() const final { return true; }
  std::vector<std::string> settings() const override { return {fmt::format("multi_precision {}", multi_precision_)}; }
  int num_numbers() const final { return 4 * targets() + own_numbers() + (multi_precision_ ? 4 : 0); }
  void numbers(const WeightStep& step, std::span<double> out) const final {
    const size_t m = size_t(targets()), own = 4 * m;
    for (size_t k = 0; k < m; ++k) out[k] = 1, out[m + k] = decay(step), out[2 * m + k] = 1, out[3 * m + k] = 1;
    set_own_numbers(step, out.subspan(own, size_t(own_numbers())));
    if (!multi_precision_) return;
    const std::span<double> copied = out.last(4);
    copied[0] = 1, copied[1] = 0, copied[2] = 1, copied[3] = 1;
  }

  NDArray update(std::span<const NDArray* const> arrays, const StepOptions& o,
                 const std::source_location& site) const final {
    const size_t group = size_t(2 + num_states()), n = (arrays.size() - 1) / group;
    const NDArray& rates = *arrays[n * group];
    const NDArray factor = arrays.size() == n * group + 2 ? *arrays.back() : NDArray();
    const auto rows = [&](size_t first, size_t count) {
      return nd.slice_axis(rates, 0, int64_t(first * n), int64_t((first + count) * n));
    };
    const size_t own = 4 * size_t(targets());
    const NDArray own_rates = rows(own, size_t(own_numbers()));
    Changes changes;
    bool copies = false;
    for (size_t i = 0; i < n; ++i) {
      const NDArray* const* const a = &arrays[i * group];
      const bool copied = multi_precision_ && ops::is_half(a[0]->dtype());
      copies = copies || copied;
      const NDArray& target = copied ? *a[group - 1] : *a[0];
      const DType dtype = computed_in(target.dtype());
      NDArray g = as(*a[1], dtype) * o.rescale_grad;
      if (factor.defined()) g = g * as(factor, dtype);
      if (o.clip_gradient >= 0) g = nd.clip(g, -o.clip_gradient, o.clip_gradient);
      change(
          {target, g, own_states() > 0 ? a[2] : nullptr},
          [&](size_t k) {
            const auto at = int64_t(k * n + i);
            return as(nd.slice_axis(own_rates, 0, at, at + 1), dtype);
          },
          changes);
    }
    // gradients have the factor already; what is left of it is whether there is a step
    NDArray done = changes.apply(rows(0, own), factor.defined() ? nd.sign(factor) : factor, site);
    return copies ? copy_back(arrays, n, rows(own + size_t(own_numbers()), 4), site) : done;
  }

 protected:
  virtual int targets() const = 0;  // arrays of a weight that change
  virtual int own_states() const = 0;
  virtual RuleState own_state(const Shape& weight, DType dtype) const = 0;
  virtual int own_numbers() const = 0;
  virtual void set_own_numbers(const WeightStep& step, std::span<double> out) const = 0;
  virtual double decay(const WeightStep&) const { return 0; }
  // Adds how the weight and its states change. number(k): the k-th own number of the weight, (1,).
  virtual void change(const WeightView& w, const std::function<NDArray(size_t)>& number, Changes& changes) const = 0;

 private:
  // Weights of 16 bits become what their copies are: an update by zeros.
  NDArray copy_back(std::span<const NDArray* const> arrays, size_t n, const NDArray& rates,
                    const std::source_location& site) const {
    const size_t group = size_t(2 + num_states());
    std::deque<NDArray> zeros;
    std::vector<const NDArray*> all;
    for (size_t i = 0; i < n; ++i) {
      const NDArray* const* const a = &arrays[i * group];
      all.insert(all.end(), {a[0], &zeros.emplace_back(nd.zeros_like(*a[0])), a[group - 1]});
    }
    all.push_back(&rates);
    return nd._kaon_multi_update3(all, {}, site);
  }

  bool multi_precision_;
};

class SgldRule final : public ComposedRule {
 public:
  using ComposedRule::ComposedRule;
  bool draws_random_numbers() const override { return true; }

 private:
  int targets() const override { return 1; }
  int own_states() const override { return 0; }
  RuleState own_state(const Shape& weight, DType dtype) const override { return {weight, dtype}; }
  int own_numbers() const override { return 2; }
  void set_own_numbers(const WeightStep& step, std::span<double> out) const override {
    out[0] = step.lr / 2, out[1] = std::sqrt(step.lr);
  }
  double decay(const WeightStep& step) const override { return step.lr / 2 * step.wd; }
  void change(const WeightView& w, const std::function<NDArray(size_t)>& number, Changes& changes) const override {
    const NDArray& g = w.gradient;
    const NDArray noise = nd.random_normal_like(g);  // on its device, in traces too
    changes.add(w.target, g * number(0) - noise * number(1));
  }
};

class GroupAdaGradRule final : public ComposedRule {
 public:
  GroupAdaGradRule(double eps, bool multi_precision) : ComposedRule(multi_precision), eps_(eps) {}
  bool updates_rows() const override { return true; }
  std::vector<std::string> settings() const override {
    std::vector<std::string> all = ComposedRule::settings();
    all.push_back(fmt::format("eps {}", eps_));
    return all;
  }

 private:
  int targets() const override { return 2; }
  int own_states() const override { return 1; }
  RuleState own_state(const Shape& weight, DType dtype) const override {
    if (weight.ndim() == 0) throw ShapeError("[GroupAdaGrad] a weight must have rows, got one of shape ()");
    Shape history = weight;
    for (int k = 1; k < history.ndim(); ++k) history[k] = 1;
    return {history, computed_in(dtype)};
  }
  int own_numbers() const override { return 1; }
  void set_own_numbers(const WeightStep& step, std::span<double> out) const override { out[0] = step.lr; }
  void change(const WeightView& w, const std::function<NDArray(size_t)>& number, Changes& changes) const override {
    const NDArray &g = w.gradient, &history = *w.states;
    NDArray squares = nd.square(g);
    if (g.ndim() > 1) {
      Shape axes;
      for (int k = 1; k < g.ndim(); ++k) axes.push_back(k);
      squares = nd.mean(squares, axes, true);
    }
    const NDArray root = nd.sqrt(history + squares + eps_);
    changes.add(w.target, nd.broadcast_div(g * number(0), root));
    changes.add(history, -squares);
  }

  double eps_;
};

double check_eps(double eps) {
  if (eps > 0) return eps;
  throw ValueError(fmt::format("[optimizer] eps must be above 0, got {}", eps));
}

}  // namespace

SGLD::SGLD(const SGLDOptions& o)
    : Optimizer(std::make_unique<SgldRule>(o.multi_precision), {.name = "SGLD",
                                                                .learning_rate = o.learning_rate,
                                                                .wd = o.wd,
                                                                .clip_gradient = o.clip_gradient,
                                                                .lr_scheduler = o.lr_scheduler}) {}
GroupAdaGrad::GroupAdaGrad(const GroupAdaGradOptions& o)
    : Optimizer(std::make_unique<GroupAdaGradRule>(check_eps(o.eps), o.multi_precision),
                {.name = "GroupAdaGrad",
                 .learning_rate = o.learning_rate,
                 .clip_gradient = o.clip_gradient,
                 .lr_scheduler = o.lr_scheduler}) {}

}  // namespace kaon::optimizer
