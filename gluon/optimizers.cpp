// The optimizers, each a rule of _kaon_multi_update.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>

#include "kaon/gluon/internal/described_rule.h"
#include "kaon/gluon/optimizer.h"
#include "kaon/ops/functions.h"

namespace kaon::optimizer {
namespace {

using ops::UpdateKind;
using ops::UpdateNumbers;
using ops::UpdateRule;

using Numbers = std::function<UpdateNumbers(const WeightStep&)>;

UpdateNumbers rate_and_decay(const WeightStep& s) { return {s.lr, s.wd}; }

class FusedRule final : public detail::DescribedRule {
 public:
  FusedRule(const UpdateRule& rule, int states, bool multi_precision, bool updates_rows, Numbers numbers)
      : rule_(rule),
        states_(states),
        multi_precision_(multi_precision),
        updates_rows_(updates_rows),
        numbers_(std::move(numbers)) {}

  bool updates_rows() const override { return updates_rows_; }
  // LBSGD adds up gradients of several steps, which may have had other factors.
  bool takes_factor() const override { return rule_.kind != UpdateKind::lbsgd; }

  int num_states() const override { return states_ + int(multi_precision_); }
  RuleState state(int k, const Shape& weight, DType dtype) const override {
    const bool copied = multi_precision_ && (dtype == DType::float16 || dtype == DType::bfloat16);
    if (k == states_ && !copied) return {Shape(0), DType::float32};
    const bool is_previous = rule_.kind == UpdateKind::dcasgd && k == 1;
    return {weight, copied ? DType::float32 : dtype, k == states_ || is_previous};
  }
  int num_numbers() const override { return 4; }
  void numbers(const WeightStep& step, std::span<double> out) const override {
    const UpdateNumbers n = numbers_(step);
    out[0] = n.lr, out[1] = n.wd, out[2] = n.x, out[3] = n.y;
  }
  std::vector<std::string> settings() const override {
    const UpdateRule& r = rule_;
    const std::pair<const char*, double> fields[] = {{"momentum", r.momentum},
                                                     {"beta1", r.beta1},
                                                     {"beta2", r.beta2},
                                                     {"epsilon", r.epsilon},
                                                     {"lamda", r.lamda},
                                                     {"beta", r.beta},
                                                     {"wd_lh", r.wd_lh},
                                                     {"eta", r.eta},
                                                     {"lower_bound", r.lower_bound},
                                                     {"upper_bound", r.upper_bound},
                                                     {"clip_weights", r.clip_weights}};
    std::vector<std::string> all{fmt::format("multi_precision {}", multi_precision_)};
    for (const auto& [name, value] : fields) all.push_back(fmt::format("{} {}", name, value));
    // What numbers_ depends on shows in its results, early and late.
    for (const int64_t t : {1, 2, 100}) {
      const UpdateNumbers n = numbers_({.name = "weight", .lr = 1, .wd = 1, .t = t, .rate = 1, .last_rate = 0.5});
      all.push_back(fmt::format("the factors {}, {}, {} and {} in update {}", n.lr, n.wd, n.x, n.y, t));
    }
    return all;
  }
  NDArray update(std::span<const NDArray* const> arrays, const StepOptions& o,
                 const std::source_location& site) const override {
    UpdateRule rule = rule_;
    rule.rescale_grad = o.rescale_grad;
    rule.clip_gradient = o.clip_gradient;
    switch (2 + num_states()) {
      case 2: return nd._kaon_multi_update2(arrays, {rule}, site);
      case 3: return nd._kaon_multi_update3(arrays, {rule}, site);
      case 4: return nd._kaon_multi_update4(arrays, {rule}, site);
      case 5: return nd._kaon_multi_update5(arrays, {rule}, site);
      default: return nd._kaon_multi_update6(arrays, {rule}, site);
    }
  }

 private:
  UpdateRule rule_;
  int states_;
  bool multi_precision_, updates_rows_;
  Numbers numbers_;
};

template <class Options>
std::unique_ptr<const Rule> fused(const Options& o, const UpdateRule& rule, int states,
                                  Numbers numbers = rate_and_decay) {
  bool updates_rows = rule.kind == UpdateKind::adagrad || rule.kind == UpdateKind::ftrl;
  if constexpr (requires { o.lazy_update; }) updates_rows = o.lazy_update;
  return std::make_unique<FusedRule>(rule, states, o.multi_precision, updates_rows, std::move(numbers));
}

// What all optimizers have in their options, for the base class, whose Settings are for derived ones to name.
template <class Settings, class Options>
Settings settings(const char* name, const Options& o, double default_learning_rate) {
  return {.name = name,
          .learning_rate = o.learning_rate,
          .default_learning_rate = default_learning_rate,
          .wd = o.wd,
          .clip_gradient = o.clip_gradient,
          .lr_scheduler = o.lr_scheduler};
}

double check_in(double value, double low, double high, const char* what) {
  if (value >= low && value < high) return value;
  throw ValueError(fmt::format("[optimizer] {} must lie in [{}, {}), got {}", what, low, high, value));
}
double check_momentum(double value) { return check_in(value, 0, 1, "momentum"); }
double check_positive(double value, const char* what) {
  if (value >= 0) return value;
  throw ValueError(fmt::format("[optimizer] {} must not be negative, got {}", what, value));
}

// 1 - beta^t, the sum of the weights that a mean of t numbers gives them.
double rest(double beta, int64_t t) { return 1 - std::pow(beta, double(t)); }

template <class Options>
UpdateRule betas(UpdateKind kind, const Options& o) {
  UpdateRule rule{.kind = kind, .beta1 = check_in(o.beta1, 0, 1, "beta1"), .beta2 = check_in(o.beta2, 0, 1, "beta2")};
  if constexpr (requires { o.epsilon; }) rule.epsilon = check_positive(o.epsilon, "epsilon");
  return rule;
}

// Of rules that divide by sqrt(v / (1 - beta2^t)) + epsilon and decay by lr wd.
Numbers decoupled(double beta1, double beta2) {
  return [=](const WeightStep& s) {
    const double root = std::sqrt(rest(beta2, s.t));
    return UpdateNumbers{s.lr * root / rest(beta1, s.t), s.lr * s.wd, root};
  };
}

template <class Options>
std::unique_ptr<const Rule> with_momentum(const Options& o, UpdateKind with, UpdateKind without, UpdateRule rule = {}) {
  rule.momentum = check_momentum(o.momentum);
  rule.kind = o.momentum != 0 ? with : without;
  return fused(o, rule, o.momentum != 0 ? 1 : 0);
}

std::unique_ptr<const Rule> nadam(const NadamOptions& o) {
  const UpdateRule rule = betas(UpdateKind::nadam, o);
  const auto momentum = [beta = o.beta1, decay = o.schedule_decay](int64_t t) {
    return beta * (1 - 0.5 * std::pow(0.96, double(t) * decay));
  };
  return fused(o, rule, 2, [=, beta2 = o.beta2](const WeightStep& s) {
    double product = 1;
    for (int64_t t = 1; t <= s.t && product > 0x1p-60; ++t) product *= momentum(t);
    const double now = momentum(s.t), next = momentum(s.t + 1), root = std::sqrt(rest(beta2, s.t));
    return UpdateNumbers{s.lr * root * next / (1 - product * next), s.wd, root,
                         s.lr * root * (1 - now) / (1 - product)};
  });
}

std::unique_ptr<const Rule> rmsprop(const RMSPropOptions& o) {
  const UpdateRule rule{.kind = o.centered ? UpdateKind::rmsprop_centered : UpdateKind::rmsprop,
                        .momentum = check_in(o.gamma2, 0, 1, "gamma2"),
                        .beta1 = check_in(o.gamma1, 0, 1, "gamma1"),
                        .epsilon = check_positive(o.epsilon, "epsilon"),
                        .clip_weights = o.clip_weights ? check_positive(*o.clip_weights, "clip_weights") : -1};
  return fused(o, rule, o.centered ? 3 : 1);
}

std::unique_ptr<const Rule> ftml(const FTMLOptions& o) {
  const UpdateRule rule = betas(UpdateKind::ftml, o);
  return fused(o, rule, 3, [beta1 = o.beta1, beta2 = o.beta2](const WeightStep& s) {
    const double root = std::sqrt(rest(beta2, s.t));
    return UpdateNumbers{rest(beta1, s.t) / (s.lr * root), s.wd, root};
  });
}

std::unique_ptr<const Rule> lars(const LARSOptions& o) {
  const UpdateRule rule{.kind = UpdateKind::lars,
                        .momentum = check_momentum(o.momentum),
                        .epsilon = check_positive(o.eps, "eps"),
                        .eta = check_positive(o.eta, "eta")};
  return fused(o, rule, 1, [corrects = o.momentum_correction](const WeightStep& s) {
    const bool adapts = !s.name.ends_with("gamma") && !s.name.ends_with("beta") && !s.name.ends_with("bias");
    return UpdateNumbers{s.lr, s.wd, double(adapts), corrects && s.last_rate != 0 ? s.rate / s.last_rate : 1};
  });
}

double warmup_factor(const LBSGDOptions& o, int64_t update) {
  const int64_t updates = o.warmup_epochs * o.updates_per_epoch;
  if (update >= updates) return double(o.batch_scale);
  if (updates <= 1) return 1;
  const double part = double(update) / double(updates), rise = double(o.batch_scale - 1);
  switch (o.warmup_strategy) {
    case WarmupStrategy::linear: return 1 + rise * part;
    case WarmupStrategy::power2: return 1 + rise * part * part;
    default: return 1 + rise * std::sqrt(part);
  }
}

std::unique_ptr<const Rule> lbsgd(const LBSGDOptions& o) {
  const UpdateRule rule{.kind = UpdateKind::lbsgd, .momentum = check_momentum(o.momentum)};
  if (o.batch_scale < 1)
    throw ValueError(fmt::format("[optimizer] batch_scale must be at least 1, got {}", o.batch_scale));
  return fused(o, rule, 2, [o](const WeightStep& s) {
    const int64_t update = o.begin_epoch * o.updates_per_epoch + s.t;
    const bool is_last = update % o.batch_scale == 0;  // of those that are added up
    return UpdateNumbers{s.lr * warmup_factor(o, update), s.wd, is_last ? 1 / double(o.batch_scale) : 0};
  });
}

std::unique_ptr<const Rule> lamb(const LAMBOptions& o) {
  UpdateRule rule = betas(UpdateKind::lamb, o);
  if (o.lower_bound) rule.lower_bound = check_positive(*o.lower_bound, "lower_bound");
  if (o.upper_bound) rule.upper_bound = check_positive(*o.upper_bound, "upper_bound");
  return fused(o, rule, 2, [=, corrects = o.bias_correction](const WeightStep& s) {
    return ops::update_numbers(rule, s.lr, s.wd, 1, {.t = s.t, .bias_correction = corrects});
  });
}

}  // namespace

SGD::SGD(const SGDOptions& o)
    : Optimizer(with_momentum(o, UpdateKind::sgd_momentum, UpdateKind::sgd), settings<Settings>("SGD", o, 0.01)) {}
NAG::NAG(const NAGOptions& o)
    : Optimizer(with_momentum(o, UpdateKind::nag, UpdateKind::sgd), settings<Settings>("NAG", o, 0.01)) {}
Signum::Signum(const SignumOptions& o)
    : Optimizer(with_momentum(o, UpdateKind::signum, UpdateKind::signsgd, {.wd_lh = check_positive(o.wd_lh, "wd_lh")}),
                settings<Settings>("Signum", o, 0.01)) {}
Lion::Lion(const LionOptions& o)
    : Optimizer(fused(o, betas(UpdateKind::lion, o), 1), settings<Settings>("Lion", o, 0.0001)) {}
Adam::Adam(const AdamOptions& o)
    : Optimizer(fused(o, betas(UpdateKind::adam, o), 2,
                      [beta1 = o.beta1, beta2 = o.beta2](const WeightStep& s) {
                        return UpdateNumbers{s.lr * (std::sqrt(rest(beta2, s.t)) / rest(beta1, s.t)), s.wd};
                      }),
                settings<Settings>("Adam", o, 0.001)) {}
AdamW::AdamW(const AdamWOptions& o)
    : Optimizer(fused(o, betas(UpdateKind::adamw, o), 2, decoupled(o.beta1, o.beta2)),
                settings<Settings>("AdamW", o, 0.001)) {}
AdaBelief::AdaBelief(const AdaBeliefOptions& o)
    : Optimizer(fused(o, betas(UpdateKind::adabelief, o), 2, decoupled(o.beta1, o.beta2)),
                settings<Settings>("AdaBelief", o, 0.001)) {}
Adamax::Adamax(const AdamaxOptions& o)
    : Optimizer(fused(o, betas(UpdateKind::adamax, o), 2,
                      [beta1 = o.beta1](const WeightStep& s) {
                        return UpdateNumbers{s.lr / rest(beta1, s.t), s.wd};
                      }),
                settings<Settings>("Adamax", o, 0.002)) {}
Nadam::Nadam(const NadamOptions& o) : Optimizer(nadam(o), settings<Settings>("Nadam", o, 0.001)) {}
AdaGrad::AdaGrad(const AdaGradOptions& o)
    : Optimizer(fused(o, {.kind = UpdateKind::adagrad, .epsilon = check_positive(o.eps, "eps")}, 1),
                settings<Settings>("AdaGrad", o, 0.01)) {}
AdaDelta::AdaDelta(const AdaDeltaOptions& o)
    : Optimizer(fused(o,
                      {.kind = UpdateKind::adadelta,
                       .beta1 = check_in(o.rho, 0, 1, "rho"),
                       .epsilon = check_positive(o.epsilon, "epsilon")},
                      2),
                settings<Settings>("AdaDelta", o, 0.01)) {}
RMSProp::RMSProp(const RMSPropOptions& o) : Optimizer(rmsprop(o), settings<Settings>("RMSProp", o, 0.001)) {}
Ftrl::Ftrl(const FtrlOptions& o)
    : Optimizer(fused(o,
                      {.kind = UpdateKind::ftrl,
                       .lamda = check_positive(o.lamda1, "lamda1"),
                       .beta = check_positive(o.beta, "beta")},
                      2),
                settings<Settings>("Ftrl", o, 0.1)) {}
FTML::FTML(const FTMLOptions& o) : Optimizer(ftml(o), settings<Settings>("FTML", o, 0.01)) {}
DCASGD::DCASGD(const DCASGDOptions& o)
    : Optimizer(fused(o,
                      {.kind = UpdateKind::dcasgd,
                       .momentum = check_momentum(o.momentum),
                       .lamda = check_positive(o.lamda, "lamda")},
                      2),
                settings<Settings>("DCASGD", o, 0.01)) {}
LARS::LARS(const LARSOptions& o) : Optimizer(lars(o), settings<Settings>("LARS", o, 0.01)) {}
LBSGD::LBSGD(const LBSGDOptions& o) : Optimizer(lbsgd(o), settings<Settings>("LBSGD", o, 0.01)) {}
LAMB::LAMB(const LAMBOptions& o) : Optimizer(lamb(o), settings<Settings>("LAMB", o, 0.001)) {}

}  // namespace kaon::optimizer
