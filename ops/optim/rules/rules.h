// The rules of optimizers, by kind, and how the inputs of operators that apply them lie. A light header.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

namespace ops {

// The rules. `decay`: g = clip(rescale_grad grad + wd weight) in place of clip(rescale_grad grad). numbers.x and
// numbers.y are what depends on the number of the update: see update_numbers. The last four are parts of others.
enum class UpdateKind : uint8_t {
  // weight <- (1 - lr wd) weight - lr g
  sgd,
  // mom <- y momentum mom - lr wd weight - lr g; weight <- weight + mom
  sgd_momentum,
  // d = lr (g + wd weight); mom <- momentum mom - d; weight <- weight + momentum mom - d
  nag,
  // weight <- (1 - lr wd) weight - lr sign(grad)
  signsgd,
  // mom <- momentum mom - (1 - momentum) (g + wd weight); weight <- (1 - lr wd_lh) weight + lr sign(mom)
  signum,
  // weight <- (1 - lr wd) weight - lr sign(beta1 mom + (1 - beta1) g); mom <- beta2 mom + (1 - beta2) g
  lion,
  // history <- history + g^2; weight <- (1 - lr wd) weight - lr g / sqrt(history + epsilon)
  adagrad,
  // decay: n <- beta1 n + (1 - beta1) g^2; weight <- bound(weight - lr g / sqrt(n + epsilon)), by clip_weights
  rmsprop,
  // decay: n as rmsprop; m <- beta1 m + (1 - beta1) g; delta <- momentum delta - lr g / sqrt(n - m^2 + epsilon);
  // weight <- bound(weight + delta)
  rmsprop_centered,
  // decay: mean <- beta1 mean + (1 - beta1) g; var <- beta2 var + (1 - beta2) g^2;
  // weight <- weight - lr mean / (sqrt(var) + epsilon)
  adam,
  // mean and var as adam; weight <- (1 - wd) weight - lr mean / (sqrt(var) + x epsilon)
  adamw,
  // mean as adam; var <- beta2 var + (1 - beta2) (g - mean)^2 + epsilon; weight as adamw
  adabelief,
  // decay: mean as adam; var <- max(beta2 var, |g|); weight <- weight - lr mean / var, where var is not 0
  adamax,
  // decay: mean and var as adam; weight <- weight - (lr mean + y g) / (sqrt(var) + x epsilon)
  nadam,
  // a <- beta1 a + (1 - beta1) g^2; d = g sqrt(b + epsilon) / sqrt(a + epsilon); b <- beta1 b + (1 - beta1) d^2;
  // weight <- (1 - wd) weight - d
  adadelta,
  // z <- z + g - (sqrt(n + g^2) - sqrt(n)) weight / lr; n <- n + g^2;
  // weight <- (sign(z) lamda - z) / ((beta + sqrt(n)) / lr + wd) where |z| > lamda, else 0
  ftrl,
  // decay: v as adam's var; e = lr (sqrt(v) + x epsilon); z <- beta1 z + (1 - beta1) g - (e - beta1 d) weight; d <- e;
  // weight <- -z / e. States d, v, z
  ftml,
  // mom <- momentum mom - lr (g + wd weight + lamda g^2 (weight - previous)); previous <- weight;
  // weight <- weight + mom
  dcasgd,
  // sum <- sum + grad; then, where x is not 0, sgd_momentum by the gradient x sum, and sum <- 0. States mom, sum
  lbsgd,
  // sgd_momentum, with the rate lr eta |weight| / (|rescale_grad grad| + wd |weight| + epsilon) where neither x nor a
  // norm is 0
  lars,
  // mean and var as adam; u = y mean / (sqrt(var) + x epsilon) + wd weight; weight <- weight - lr r u with
  // r = min(max(|weight|, lower_bound), upper_bound) / |u|, or 1 where either is 0
  lamb,
  // mean and var, and u as a third state
  lamb_direction,
  // mean and var, and the sums of weight^2 and u^2
  lamb_means,
  // weight <- weight - lr u
  lamb_step,
  // the sums of weight^2 and (rescale_grad grad)^2
  norms
};
constexpr std::array<std::string_view, 25> enum_names(UpdateKind) {
  return {"sgd",
          "sgd_momentum",
          "nag",
          "signsgd",
          "signum",
          "lion",
          "adagrad",
          "rmsprop",
          "rmsprop_centered",
          "adam",
          "adamw",
          "adabelief",
          "adamax",
          "nadam",
          "adadelta",
          "ftrl",
          "ftml",
          "dcasgd",
          "lbsgd",
          "lars",
          "lamb",
          "lamb_direction",
          "lamb_means",
          "lamb_step",
          "norms"};
}

// A rule with the parameters that all weights share. Negative bounds bound nothing.
struct UpdateRule {
  UpdateKind kind = UpdateKind::sgd;
  double momentum = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double rescale_grad = 1, clip_gradient = -1;
  double lamda = 0, beta = 1, wd_lh = 0, clip_weights = -1, eta = 1, lower_bound = -1, upper_bound = -1;
};

// And those of one weight.
struct UpdateNumbers {
  double lr = 0, wd = 0, x = 1, y = 1;
};

// How the inputs of an update operator lie: {weight, gradient, states..., weight32} for each weight, then those that
// are for all.
struct UpdateForm {
  enum class Shared : uint8_t { nothing, rescale_grad, rates, lrs_and_wds };
  UpdateKind kind;
  bool multi_precision = false, multi = false;
  Shared shared = Shared::nothing;
};

// A call of one: what run_cpu and run_cuda need of its attributes.
struct UpdateCall {
  UpdateForm form;
  UpdateRule rule;
  const void* op;
  UpdateNumbers (*numbers)(const void* op, int weight);
};
void run_update(const UpdateCall& call, KernelContext& c);
void run_update_cuda(const UpdateCall& call, KernelContext& c);
void run_multi_update(const UpdateRule& rule, int arrays, KernelContext& c);
void run_multi_update_cuda(const UpdateRule& rule, int arrays, KernelContext& c);
void run_lamb_step(double lr, double lower_bound, double upper_bound, KernelContext& c);
void run_lamb_step_cuda(double lr, double lower_bound, double upper_bound, KernelContext& c);

template <class Op>
concept IsUpdate = requires {
  Op::form;
};

// The attributes of T among those that update operators have.
template <class T>
constexpr void update_fields(auto field) {
  if constexpr (requires { &T::lr; }) field("lr", &T::lr, true);
  if constexpr (requires { &T::lrs; }) field("lrs", &T::lrs, true);
  if constexpr (requires { &T::learning_rates; }) field("learning_rates", &T::learning_rates, true);
  if constexpr (requires { &T::momentum; }) field("momentum", &T::momentum);
  if constexpr (requires { &T::gamma1; }) field("gamma1", &T::gamma1);
  if constexpr (requires { &T::gamma2; }) field("gamma2", &T::gamma2);
  if constexpr (requires { &T::beta1; }) field("beta1", &T::beta1);
  if constexpr (requires { &T::beta2; }) field("beta2", &T::beta2);
  if constexpr (requires { &T::epsilon; }) field("epsilon", &T::epsilon);
  if constexpr (requires { &T::lamda1; }) field("lamda1", &T::lamda1);
  if constexpr (requires { &T::beta; }) field("beta", &T::beta);
  if constexpr (requires { &T::t; }) field("t", &T::t, true);
  if constexpr (requires { &T::wd; })
    field(
        "wd", &T::wd, requires { T::requires_wd; });
  if constexpr (requires { &T::wds; }) field("wds", &T::wds, true);
  if constexpr (requires { &T::eta; }) field("eta", &T::eta, true);
  if constexpr (requires { &T::etas; }) field("etas", &T::etas, true);
  if constexpr (requires { &T::rescale_grad; }) field("rescale_grad", &T::rescale_grad);
  if constexpr (requires { &T::lower_bound; }) field("lower_bound", &T::lower_bound);
  if constexpr (requires { &T::upper_bound; }) field("upper_bound", &T::upper_bound);
  if constexpr (requires { &T::clip_gradient; }) field("clip_gradient", &T::clip_gradient);
  if constexpr (requires { &T::clip_grad; }) field("clip_grad", &T::clip_grad);
  if constexpr (requires { &T::clip_weights; }) field("clip_weights", &T::clip_weights);
  if constexpr (requires { &T::wd_lh; }) field("wd_lh", &T::wd_lh);
  if constexpr (requires { &T::bias_correction; }) field("bias_correction", &T::bias_correction);
  if constexpr (requires { &T::step_count; }) field("step_count", &T::step_count, true);
  if constexpr (requires { &T::lazy_update; }) field("lazy_update", &T::lazy_update);
  if constexpr (requires { &T::num_weights; }) field("num_weights", &T::num_weights);
  if constexpr (requires { &T::num_tensors; }) field("num_tensors", &T::num_tensors);
}

template <class Op>
UpdateRule update_rule(const Op& op) {
  UpdateRule r{.kind = Op::form.kind};
  if constexpr (requires { op.momentum; }) r.momentum = op.momentum;
  if constexpr (requires { op.beta1; }) r.beta1 = op.beta1;
  if constexpr (requires { op.beta2; }) r.beta2 = op.beta2;
  if constexpr (requires { op.gamma1; }) r.beta1 = op.gamma1;
  if constexpr (requires { op.gamma2; }) r.momentum = op.gamma2;
  if constexpr (requires { op.epsilon; }) r.epsilon = op.epsilon;
  if constexpr (requires { op.rescale_grad; }) r.rescale_grad = op.rescale_grad;
  if constexpr (requires { op.clip_gradient; }) r.clip_gradient = op.clip_gradient;
  if constexpr (requires { op.clip_grad; }) r.clip_gradient = op.clip_grad;
  if constexpr (requires { op.lamda1; }) r.lamda = op.lamda1;
  if constexpr (requires { op.beta; }) r.beta = op.beta;
  if constexpr (requires { op.wd_lh; }) r.wd_lh = op.wd_lh;
  if constexpr (requires { op.clip_weights; }) r.clip_weights = op.clip_weights;
  if constexpr (requires { op.lower_bound; }) r.lower_bound = op.lower_bound, r.upper_bound = op.upper_bound;
  return r;
}

// How often a weight has been updated, this time included; and what the rule makes of that.
struct UpdateCount {
  int64_t t = 1;
  bool bias_correction = true;
};
KAON_API UpdateNumbers update_numbers(const UpdateRule& rule, double lr, double wd, double eta,
                                      const UpdateCount& count);

template <class Op>
UpdateCall update_call(const Op& op) {
  return {Op::form, update_rule(op), &op, [](const void* p, [[maybe_unused]] int i) {
            const Op& o = *static_cast<const Op*>(p);
            double lr = 0, wd = 0, eta = 1;
            UpdateCount count;
            if constexpr (requires { o.lr; }) lr = o.lr;
            if constexpr (requires { o.wd; }) wd = o.wd;
            if constexpr (requires { o.eta; }) eta = o.eta;
            if constexpr (requires { o.lrs; }) lr = double(o.lrs[i]);
            if constexpr (requires { o.learning_rates; }) lr = double(o.learning_rates[i]);
            if constexpr (requires { o.wds; }) wd = double(o.wds[i]);
            if constexpr (requires { o.etas; }) eta = double(o.etas[i]);
            if constexpr (requires { o.t; }) count.t = o.t;
            if constexpr (requires { o.step_count; }) count.t = o.step_count[i];
            if constexpr (requires { o.bias_correction; }) count.bias_correction = o.bias_correction;
            return update_numbers(update_rule(o), lr, wd, eta, count);
          }};
}

// The bits of all arrays of a group but the gradient.
constexpr uint32_t all_but_gradient(int arrays) { return ((1u << arrays) - 1) & ~2u; }
}  // namespace ops

}  // namespace kaon
