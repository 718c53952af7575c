#include "kaon/gluon/optimizer.h"

#include <fmt/format.h>

namespace kaon::optimizer {

struct Optimizer::State {
  std::unique_ptr<const Rule> rule;
  std::string name;
  double learning_rate;
  double wd;
  double clip_gradient;  // negative: none
  lr_scheduler::LRScheduler scheduler;
};

Optimizer::Optimizer(std::unique_ptr<const Rule> rule, const Settings& s)
    : state_(std::make_shared<State>(State{.rule = std::move(rule),
                                           .name = std::string(s.name),
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
const std::string& Optimizer::name() const { return state_->name; }
const Rule& Optimizer::rule() const { return *state_->rule; }
StepOptions Optimizer::step_options(double rescale_grad) const {
  return {.rescale_grad = rescale_grad, .clip_gradient = state_->clip_gradient};
}

}  // namespace kaon::optimizer
