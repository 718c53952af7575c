// Optimizers: the rules by which a Trainer changes parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <type_traits>

#include "kaon/engine/api.h"
#include "kaon/gluon/lr_scheduler.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace optimizer {

// The parameters of one step, apart from the arrays.
struct StepOptions {
  double rescale_grad = 1;
  double clip_gradient = -1;  // negative: none
};

// An update rule for weights. Stateless: the Trainer holds the arrays that it keeps for each weight. Thread safety: any
// thread.
class Rule {
 public:
  virtual ~Rule() = default;
  // The number of arrays kept for each weight, of its shape and dtype, zero at the start.
  virtual int num_states() const = 0;
  // The factor of the learning rate in the t-th update of a weight (from 1).
  virtual double rate_factor(int64_t t) const {
    (void)t;
    return 1;
  }
  // Pushes one operator that changes all weights, and returns an extra output of it, by which the Trainer sees whether
  // the step has failed. `arrays`: for each weight {weight, gradient, states...}; then float32 (2 n,): n learning
  // rates, n weight decays.
  virtual NDArray update(std::span<const NDArray* const> arrays, const StepOptions& options,
                         const std::source_location& site) const = 0;
};

// A rule with its settings. A handle: a copy is the same optimizer. Make one of the classes below, or derive a class
// with a Rule of your own. Nothing blocks. Thread safety: as the Trainer that uses it.
class Optimizer {
 public:
  // The rate for update number `num_update`: the scheduler's, if there is one.
  double learning_rate(int64_t num_update) const;
  // Throws StateError when there is a scheduler, ValueError for a negative rate.
  void set_learning_rate(double lr);
  bool has_scheduler() const;
  double wd() const;
  const Rule& rule() const;
  StepOptions step_options(double rescale_grad) const;

 protected:
  struct Settings {
    std::optional<double> learning_rate{};
    double default_learning_rate = 0.01;
    double wd = 0;
    std::optional<double> clip_gradient{};
    lr_scheduler::LRScheduler lr_scheduler{};
  };
  // Throws ValueError for a null rule and for settings out of range.
  Optimizer(std::unique_ptr<const Rule> rule, const Settings& settings);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

struct SGDOptions {
  // 0.01, or the scheduler's base_lr. Given beside a scheduler it replaces base_lr, which MXNet announces and only its
  // Factor and MultiFactor do, apart from the warm-up (docs/differences.md)
  std::optional<double> learning_rate{};
  double momentum = 0;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
};
static_assert(std::is_trivially_destructible_v<SGDOptions>);

// With g = clip(grad / batch_size): w <- w - lr (g + wd w); with momentum: v <- momentum v - lr (g + wd w), w <- w + v.
// Throws ValueError for options out of range; momentum is in [0, 1).
class SGD : public Optimizer {
 public:
  explicit SGD(const SGDOptions& options = {});
};

struct AdamOptions {
  // 0.001, or the scheduler's base_lr. Given beside a scheduler it replaces base_lr, as with SGD; in MXNet 0.001
  // replaces it where nothing is given (docs/differences.md)
  std::optional<double> learning_rate{};
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
};
static_assert(std::is_trivially_destructible_v<AdamOptions>);

// With g = clip(grad / batch_size + wd w): m <- beta1 m + (1 - beta1) g; v <- beta2 v + (1 - beta2) g^2;
// w <- w - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon) in the t-th update (Kingma and Ba 2015). Throws
// ValueError for options out of range; beta1 and beta2 are in [0, 1).
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {});
};

}  // namespace optimizer
}  // namespace kaon
