#include "kaon/gluon/optimizer.h"

#include <fmt/format.h>

#include <cmath>

#include "kaon/ops/functions.h"

namespace kaon::optimizer {

struct Optimizer::State {
  std::unique_ptr<const Rule> rule;
  double learning_rate;
  double wd;
  double clip_gradient;  // negative: none
  lr_scheduler::LRScheduler scheduler;
};

Optimizer::Optimizer(std::unique_ptr<const Rule> rule, const Settings& s)
    : state_(std::make_shared<State>(State{.rule = std::move(rule),
                                           .learning_rate = s.learning_rate.value_or(s.default_learning_rate),
                                           .wd = s.wd,
                                           .clip_gradient = s.clip_gradient.value_or(-1),
                                           .scheduler = s.lr_scheduler})) {
  if (!state_->rule) throw ValueError("[optimizer] a rule must be given");
  if (!(state_->learning_rate >= 0)) {
    throw ValueError(fmt::format("[optimizer] learning_rate must not be negative, got {}", state_->learning_rate));
  }
  if (!(s.wd >= 0)) throw ValueError(fmt::format("[optimizer] wd must not be negative, got {}", s.wd));
  if (s.clip_gradient && !(*s.clip_gradient >= 0)) {
    throw ValueError(fmt::format("[optimizer] clip_gradient must not be negative, got {}", *s.clip_gradient));
  }
  if (s.learning_rate && s.lr_scheduler.is_set()) state_->scheduler.base_lr = *s.learning_rate;
}

double Optimizer::learning_rate(int64_t num_update) const {
  return state_->scheduler.is_set() ? state_->scheduler(num_update) : state_->learning_rate;
}

void Optimizer::set_learning_rate(double lr) {
  if (state_->scheduler.is_set()) {
    throw StateError("[set_learning_rate] the learning rate follows from the lr_scheduler of this optimizer");
  }
  if (!(lr >= 0)) throw ValueError(fmt::format("[set_learning_rate] the rate must not be negative, got {}", lr));
  state_->learning_rate = lr;
}

bool Optimizer::has_scheduler() const { return state_->scheduler.is_set(); }
double Optimizer::wd() const { return state_->wd; }
const Rule& Optimizer::rule() const { return *state_->rule; }
StepOptions Optimizer::step_options(double rescale_grad) const {
  return {.rescale_grad = rescale_grad, .clip_gradient = state_->clip_gradient};
}

namespace {

void check_in(double value, double low, double high, const char* what) {
  if (!(value >= low && value < high))
    throw ValueError(fmt::format("[optimizer] {} must lie in [{}, {}), got {}", what, low, high, value));
}

class SGDRule final : public Rule {
 public:
  explicit SGDRule(double momentum) : momentum_(momentum) {}
  int num_states() const override { return momentum_ != 0 ? 1 : 0; }
  NDArray update(std::span<const NDArray* const> arrays, const StepOptions& o,
                 const std::source_location& site) const override {
    if (momentum_ == 0) {
      return nd._kaon_multi_sgd_update(arrays, {.rescale_grad = o.rescale_grad, .clip_gradient = o.clip_gradient},
                                       site);
    }
    return nd._kaon_multi_sgd_mom_update(
        arrays, {.momentum = momentum_, .rescale_grad = o.rescale_grad, .clip_gradient = o.clip_gradient}, site);
  }

 private:
  double momentum_;
};

class AdamRule final : public Rule {
 public:
  AdamRule(double beta1, double beta2, double epsilon) : beta1_(beta1), beta2_(beta2), epsilon_(epsilon) {}
  int num_states() const override { return 2; }
  double rate_factor(int64_t t) const override {
    return std::sqrt(1 - std::pow(beta2_, double(t))) / (1 - std::pow(beta1_, double(t)));
  }
  NDArray update(std::span<const NDArray* const> arrays, const StepOptions& o,
                 const std::source_location& site) const override {
    return nd._kaon_multi_adam_update(arrays,
                                      {.beta1 = beta1_,
                                       .beta2 = beta2_,
                                       .epsilon = epsilon_,
                                       .rescale_grad = o.rescale_grad,
                                       .clip_gradient = o.clip_gradient},
                                      site);
  }

 private:
  double beta1_, beta2_, epsilon_;
};

}  // namespace

SGD::SGD(const SGDOptions& o)
    : Optimizer(std::make_unique<SGDRule>(o.momentum), {.learning_rate = o.learning_rate,
                                                        .wd = o.wd,
                                                        .clip_gradient = o.clip_gradient,
                                                        .lr_scheduler = o.lr_scheduler}) {
  check_in(o.momentum, 0, 1, "momentum");
}

Adam::Adam(const AdamOptions& o)
    : Optimizer(std::make_unique<AdamRule>(o.beta1, o.beta2, o.epsilon), {.learning_rate = o.learning_rate,
                                                                          .default_learning_rate = 0.001,
                                                                          .wd = o.wd,
                                                                          .clip_gradient = o.clip_gradient,
                                                                          .lr_scheduler = o.lr_scheduler}) {
  check_in(o.beta1, 0, 1, "beta1");
  check_in(o.beta2, 0, 1, "beta2");
  if (!(o.epsilon >= 0)) throw ValueError(fmt::format("[optimizer] epsilon must not be negative, got {}", o.epsilon));
}

}  // namespace kaon::optimizer
