// Optimizers: the rules by which a Trainer changes parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
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

// What a rule knows of a weight in one step.
struct WeightStep {
  std::string_view name;           // of the parameter
  double lr = 0, wd = 0;           // with its multipliers
  int64_t t = 1;                   // the number of this update of it, from 1
  double rate = 0, last_rate = 0;  // the optimizer's learning rate at this update, and at the one before
};

// An array that a rule keeps for each weight: zero at the start, or as the weight is then.
struct RuleState {
  Shape shape;
  DType dtype;
  bool is_weight = false;
};

// An update rule for weights. Stateless: the Trainer holds the arrays that it keeps for each weight. Thread safety: any
// thread.
class Rule {
 public:
  virtual ~Rule() = default;
  // The number of arrays kept for each weight.
  virtual int num_states() const = 0;
  // The k-th of them: zeros of the weight's shape and dtype unless a rule says otherwise.
  virtual RuleState state(int k, const Shape& weight, DType dtype) const {
    (void)k;
    return {weight, dtype};
  }
  // The factor of the learning rate in the t-th update of a weight (from 1).
  virtual double rate_factor(int64_t t) const {
    (void)t;
    return 1;
  }
  // Whether a row_sparse gradient changes the rows that it stores alone, given as arrays of their own; else it is made
  // dense.
  virtual bool updates_rows() const { return false; }
  // How many numbers `update` gets for each weight, and what they are: the learning rate and the weight decay.
  virtual int num_numbers() const { return 2; }
  virtual void numbers(const WeightStep& step, std::span<double> out) const {
    out[0] = step.lr * rate_factor(step.t);
    out[1] = step.wd;
  }
  // Whether `update` draws random numbers. Over ranks one rank then updates each weight, as with shard_states: else the
  // ranks' weights would differ.
  virtual bool draws_random_numbers() const { return false; }
  // Whether `update` takes a factor of the gradients. Else clip_global_norm multiplies them before, and losses cannot
  // be scaled.
  virtual bool takes_factor() const { return false; }
  // Pushes one operator that changes all weights, and returns an extra output of it, by which the Trainer sees whether
  // the step has failed. `arrays`: for each weight {weight, gradient, states...}; then float32 (num_numbers() n,): the
  // first number of each of the n weights, the second of each, and so on; and perhaps a factor of rescale_grad, float32
  // (1,), where 0 leaves weights and states as they are.
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
  // Of the class, as files of states have it; empty where a class of your own gives none.
  const std::string& name() const;
  const Rule& rule() const;
  StepOptions step_options(double rescale_grad) const;

 protected:
  struct Settings {
    std::string_view name{};
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

// The optimizers have in common: g = clip(grad / batch_size) by clip_gradient, or with `decay`
// g = clip(grad / batch_size + wd w). learning_rate: the scheduler's base_lr where there is a scheduler and no rate,
// else the default that is named beside it; given beside a scheduler it replaces base_lr, which MXNet announces and
// only its Factor and MultiFactor do, apart from the warm-up (docs/differences.md). multi_precision: weights of 16 bits
// are updated in float32 copies of them, with float32 states. A row_sparse gradient is made dense, apart from
// lazy_update, AdaGrad, GroupAdaGrad and Ftrl, which change the rows that it stores and their states alone.
// Constructors throw ValueError for options out of range. Those that MXNet has are MXNet's. t counts the updates of a
// weight from 1.

struct SGDOptions {
  std::optional<double> learning_rate{};  // 0.01
  double momentum = 0;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
  bool lazy_update = false;  // a row_sparse gradient changes only the rows that it stores
};
static_assert(std::is_trivially_destructible_v<SGDOptions>);

// w <- w - lr (g + wd w); with momentum: v <- momentum v - lr (g + wd w), w <- w + v. momentum is in [0, 1).
class SGD : public Optimizer {
 public:
  explicit SGD(const SGDOptions& options = {});
};

struct NAGOptions {
  std::optional<double> learning_rate{};  // 0.01
  double momentum = 0;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// Nesterov's: d = lr (g + wd w); v <- momentum v - d; w <- w + momentum v - d. momentum is in [0, 1).
class NAG : public Optimizer {
 public:
  explicit NAG(const NAGOptions& options = {});
};

struct SignumOptions {
  std::optional<double> learning_rate{};  // 0.01
  double momentum = 0.9, wd_lh = 0;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// v <- momentum v - (1 - momentum) (g + wd w); w <- (1 - lr wd_lh) w + lr sign(v). Without momentum:
// w <- (1 - lr wd) w - lr sign(grad) (Bernstein et al. 2018). momentum is in [0, 1).
class Signum : public Optimizer {
 public:
  explicit Signum(const SignumOptions& options = {});
};

struct LionOptions {
  std::optional<double> learning_rate{};  // 0.0001
  double beta1 = 0.9, beta2 = 0.99;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// w <- (1 - lr wd) w - lr sign(beta1 m + (1 - beta1) g); m <- beta2 m + (1 - beta2) g (Chen et al. 2023).
class Lion : public Optimizer {
 public:
  explicit Lion(const LionOptions& options = {});
};

struct AdamOptions {
  std::optional<double> learning_rate{};  // 0.001; MXNet lets it replace a scheduler's base_lr (docs/differences.md)
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
  bool lazy_update = false;  // a row_sparse gradient changes only the rows that it stores
};
static_assert(std::is_trivially_destructible_v<AdamOptions>);

// decay: m <- beta1 m + (1 - beta1) g; v <- beta2 v + (1 - beta2) g^2;
// w <- w - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon) (Kingma and Ba 2015). beta1 and beta2 are in
// [0, 1).
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {});
};

struct AdamWOptions {
  std::optional<double> learning_rate{};  // 0.001
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double wd = 0.01;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// m and v of g as Adam's; w <- (1 - lr wd) w - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + epsilon) (Loshchilov
// and Hutter 2019), as in PyTorch.
class AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options = {});
};

struct AdaBeliefOptions {
  std::optional<double> learning_rate{};  // 0.001
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-16;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// As AdamW, with v <- beta2 v + (1 - beta2) (g - m)^2 + epsilon, by the new m (Zhuang et al. 2020).
class AdaBelief : public Optimizer {
 public:
  explicit AdaBelief(const AdaBeliefOptions& options = {});
};

struct AdamaxOptions {
  std::optional<double> learning_rate{};  // 0.002
  double beta1 = 0.9, beta2 = 0.999;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// decay: m as Adam's; u <- max(beta2 u, |g|); w <- w - lr / (1 - beta1^t) m / u where u is not 0.
class Adamax : public Optimizer {
 public:
  explicit Adamax(const AdamaxOptions& options = {});
};

struct NadamOptions {
  std::optional<double> learning_rate{};  // 0.001
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, schedule_decay = 0.004;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// decay: m and v as Adam's; with p(t) = beta1 (1 - 0.96^(schedule_decay t) / 2) and P(t) = p(1) ... p(t):
// w <- w - lr ((1 - p(t)) g / (1 - P(t)) + p(t + 1) m / (1 - P(t + 1))) / (sqrt(v / (1 - beta2^t)) + epsilon) (Dozat
// 2016).
class Nadam : public Optimizer {
 public:
  explicit Nadam(const NadamOptions& options = {});
};

struct AdaGradOptions {
  std::optional<double> learning_rate{};  // 0.01
  double eps = 1e-7;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// h <- h + g^2; w <- w - lr (g / sqrt(h + eps) + wd w) (Duchi et al. 2011).
class AdaGrad : public Optimizer {
 public:
  explicit AdaGrad(const AdaGradOptions& options = {});
};

struct GroupAdaGradOptions {
  std::optional<double> learning_rate{};  // 0.01
  double eps = 1e-5;                      // above 0
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// AdaGrad with one rate for each row of a weight (n, ...): h (n, 1, ...) <- h + the mean of g^2 in the row;
// w <- w - lr g / sqrt(h + eps). No weight decays. h is float32, of float64 weights float64. Throws ShapeError for a
// weight without axes.
class GroupAdaGrad : public Optimizer {
 public:
  explicit GroupAdaGrad(const GroupAdaGradOptions& options = {});
};

struct AdaDeltaOptions {
  std::optional<double> learning_rate{};  // no effect
  double rho = 0.9, epsilon = 1e-5;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// a <- rho a + (1 - rho) g^2; d = g sqrt(b + epsilon) / sqrt(a + epsilon); b <- rho b + (1 - rho) d^2;
// w <- w - d - wd w (Zeiler 2012). The learning rate has no effect.
class AdaDelta : public Optimizer {
 public:
  explicit AdaDelta(const AdaDeltaOptions& options = {});
};

struct RMSPropOptions {
  std::optional<double> learning_rate{};  // 0.001
  double gamma1 = 0.9, gamma2 = 0.9, epsilon = 1e-8;
  bool centered = false;
  std::optional<double> clip_weights{};
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// decay: n <- gamma1 n + (1 - gamma1) g^2; w <- w - lr g / sqrt(n + epsilon). centered:
// m <- gamma1 m + (1 - gamma1) g; d <- gamma2 d - lr g / sqrt(n - m^2 + epsilon); w <- w + d (Graves 2013).
// clip_weights bounds each weight.
class RMSProp : public Optimizer {
 public:
  explicit RMSProp(const RMSPropOptions& options = {});
};

struct FtrlOptions {
  std::optional<double> learning_rate{};  // 0.1
  double lamda1 = 0.01, beta = 1;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// z <- z + g - (sqrt(n + g^2) - sqrt(n)) w / lr; n <- n + g^2; w <- (sign(z) lamda1 - z) / ((beta + sqrt(n)) / lr + wd)
// where |z| > lamda1, else 0 (McMahan et al. 2013). A learning rate of 0 gives NaN.
class Ftrl : public Optimizer {
 public:
  explicit Ftrl(const FtrlOptions& options = {});
};

struct FTMLOptions {
  std::optional<double> learning_rate{};  // 0.01
  double beta1 = 0.6, beta2 = 0.999, epsilon = 1e-8;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// decay: v as Adam's; e = (1 - beta1^t) / lr (sqrt(v / (1 - beta2^t)) + epsilon);
// z <- beta1 z + (1 - beta1) g - (e - beta1 d) w; d <- e; w <- -z / e (Zheng and Kwok 2017). A learning rate of 0 gives
// NaN.
class FTML : public Optimizer {
 public:
  explicit FTML(const FTMLOptions& options = {});
};

struct DCASGDOptions {
  std::optional<double> learning_rate{};  // 0.01
  double momentum = 0, lamda = 0.04;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// v <- momentum v - lr (g + wd w + lamda g^2 (w - w')), with the w' of one update before; w <- w + v (Zheng et al.
// 2016).
class DCASGD : public Optimizer {
 public:
  explicit DCASGD(const DCASGDOptions& options = {});
};

struct LARSOptions {
  std::optional<double> learning_rate{};  // 0.01
  double momentum = 0, eta = 0.001, eps = 0;
  bool momentum_correction = true;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// SGD with a rate for each weight but those named ...gamma, ...beta and ...bias: lr eta |w| / (|grad / batch_size| + wd
// |w|
// + eps) where neither norm is 0 (You et al. 2017). momentum_correction: the momentum is multiplied by the ratio of the
// scheduler's rate to that of the update before.
class LARS : public Optimizer {
 public:
  explicit LARS(const LARSOptions& options = {});
};

// Factors of the rate in the first updates, from 1 to batch_scale: by the part p of them that is over, p^2 or sqrt(p).
enum class WarmupStrategy : uint8_t { linear, power2, sqrt };

struct LBSGDOptions {
  std::optional<double> learning_rate{};  // 0.01
  double momentum = 0;
  WarmupStrategy warmup_strategy = WarmupStrategy::linear;
  int64_t warmup_epochs = 5, batch_scale = 1, updates_per_epoch = 32, begin_epoch = 0;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// Large batches: gradients of batch_scale steps are added up before SGD takes one with their mean. Its rate is
// multiplied by a factor that rises from 1 to batch_scale in the first warmup_epochs.
class LBSGD : public Optimizer {
 public:
  explicit LBSGD(const LBSGDOptions& options = {});
};

struct LAMBOptions {
  std::optional<double> learning_rate{};  // 0.001
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  std::optional<double> lower_bound{}, upper_bound{};
  bool bias_correction = true;
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// m and v of g as Adam's, with bias_correction divided by 1 - beta^t; u = m / (sqrt(v) + epsilon) + wd w; w <- w - lr r
// u with r = |w| / |u|, or 1 where either is 0 (You et al. 2020). |w| is bounded first.
class LAMB : public Optimizer {
 public:
  explicit LAMB(const LAMBOptions& options = {});
};

struct SGLDOptions {
  std::optional<double> learning_rate{};  // 0.01
  double wd = 0;
  std::optional<double> clip_gradient{};
  lr_scheduler::LRScheduler lr_scheduler{};
  bool multi_precision = false;
};

// Langevin dynamics: w <- w - lr / 2 (g + wd w) + sqrt(lr) n, with n normally distributed, new for each element and
// update, from Kaon's random numbers (Welling and Teh 2011). With the gradient of a negative log-posterior and small
// rates, the weights of many updates are samples of the posterior. A step that amp leaves out adds no noise either.
// A TrainingStep draws other numbers than a Trainer does from the same seed. Over ranks one rank updates each weight.
class SGLD : public Optimizer {
 public:
  explicit SGLD(const SGLDOptions& options = {});
};

}  // namespace optimizer
}  // namespace kaon
