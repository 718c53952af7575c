// Adam as operators that update the weight and its two means in place.
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

// With g = clip(rescale_grad * grad + wd weight): mean <- beta1 mean + (1 - beta1) g; var <- beta2 var +
// (1 - beta2) g^2; weight <- weight - lr mean / (sqrt(var) + epsilon) (Kingma and Ba 2015). The bias correction
// sqrt(1 - beta2^t) / (1 - beta1^t) is the caller's to put into lr, as in MXNet. clip_gradient < 0: no clipping.
struct AdamUpdate {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  bool lazy_update = true;
  static constexpr OpTraits traits{.name = "adam_update",
                                   .inputs = {"weight", "grad", "mean", "var"},
                                   .outputs = 0,
                                   .mutates = bit(0) | bit(2) | bit(3)};
  static constexpr void fields(auto field) {
    field("lr", &AdamUpdate::lr, true);
    field("beta1", &AdamUpdate::beta1);
    field("beta2", &AdamUpdate::beta2);
    field("epsilon", &AdamUpdate::epsilon);
    field("wd", &AdamUpdate::wd);
    field("rescale_grad", &AdamUpdate::rescale_grad);
    field("clip_gradient", &AdamUpdate::clip_gradient);
    field("lazy_update", &AdamUpdate::lazy_update);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};
void run_cpu(const AdamUpdate& op, KernelContext& c);
void run_cuda(const AdamUpdate& op, KernelContext& c);

// adam_update of many tensors: inputs weight0, grad0, mean0, var0, weight1, ..., rates. `rates` is float32 (2 n,): the
// n learning rates, then the n weight decays. Bit-equal to the single updates with the same rates. The output is as
// that of _kaon_multi_sgd_update.
struct MultiAdamUpdate {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double rescale_grad = 1;
  double clip_gradient = -1;
  static constexpr OpTraits traits{.name = "_kaon_multi_adam_update",
                                   .variadic = true,
                                   .mutates = bit(0) | bit(2) | bit(3),
                                   .mutates_period = 4,
                                   .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("beta1", &MultiAdamUpdate::beta1);
    field("beta2", &MultiAdamUpdate::beta2);
    field("epsilon", &MultiAdamUpdate::epsilon);
    field("rescale_grad", &MultiAdamUpdate::rescale_grad);
    field("clip_gradient", &MultiAdamUpdate::clip_gradient);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};
void run_cpu(const MultiAdamUpdate& op, KernelContext& c);
void run_cuda(const MultiAdamUpdate& op, KernelContext& c);

}  // namespace kaon
