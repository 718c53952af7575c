// Updates of weights in place.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- Stochastic gradient descent as operators that update the weight in place, one tensor or many at a time.

namespace op {
// With g = clip(rescale_grad * grad): weight <- (1 - lr wd) weight - lr g. clip_gradient < 0: no clipping.
// lazy_update concerns row-sparse gradients only. No outputs: the updated input is the result.
struct SGDUpdate {
  double lr = 0;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  bool lazy_update = true;
  static constexpr OpTraits traits{.name = "sgd_update", .inputs = {"weight", "grad"}, .outputs = 0, .mutates = bit(0)};
  static constexpr void fields(auto field) {
    field("lr", &SGDUpdate::lr, true);
    field("wd", &SGDUpdate::wd);
    field("rescale_grad", &SGDUpdate::rescale_grad);
    field("clip_gradient", &SGDUpdate::clip_gradient);
    field("lazy_update", &SGDUpdate::lazy_update);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// mom <- momentum mom - lr wd weight - lr g; weight <- weight + mom.
struct SGDMomUpdate {
  double lr = 0;
  double momentum = 0;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  bool lazy_update = true;
  static constexpr OpTraits traits{
      .name = "sgd_mom_update", .inputs = {"weight", "grad", "mom"}, .outputs = 0, .mutates = bit(0) | bit(2)};
  static constexpr void fields(auto field) {
    field("lr", &SGDMomUpdate::lr, true);
    field("momentum", &SGDMomUpdate::momentum);
    field("wd", &SGDMomUpdate::wd);
    field("rescale_grad", &SGDMomUpdate::rescale_grad);
    field("clip_gradient", &SGDMomUpdate::clip_gradient);
    field("lazy_update", &SGDMomUpdate::lazy_update);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// sgd_update of many tensors: inputs weight0, grad0, weight1, grad1, ..., rates. `rates` is float32 (2 n,): the n
// learning rates, then the n weight decays. Bit-equal to the single updates with the same rates. The output is an empty
// float32 array, which fails when the update does: weights that it has not touched do not.
struct MultiSGDUpdate {
  double rescale_grad = 1;
  double clip_gradient = -1;
  static constexpr OpTraits traits{
      .name = "_kaon_multi_sgd_update", .variadic = true, .mutates = bit(0), .mutates_period = 2, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("rescale_grad", &MultiSGDUpdate::rescale_grad);
    field("clip_gradient", &MultiSGDUpdate::clip_gradient);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// sgd_mom_update of many tensors: inputs weight0, grad0, mom0, weight1, ..., rates.
struct MultiSGDMomUpdate {
  double momentum = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  static constexpr OpTraits traits{.name = "_kaon_multi_sgd_mom_update",
                                   .variadic = true,
                                   .mutates = bit(0) | bit(2),
                                   .mutates_period = 3,
                                   .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("momentum", &MultiSGDMomUpdate::momentum);
    field("rescale_grad", &MultiSGDMomUpdate::rescale_grad);
    field("clip_gradient", &MultiSGDMomUpdate::clip_gradient);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::SGDUpdate& op, KernelContext& c);
void run_cuda(const op::SGDUpdate& op, KernelContext& c);
void run_cpu(const op::SGDMomUpdate& op, KernelContext& c);
void run_cuda(const op::SGDMomUpdate& op, KernelContext& c);
void run_cpu(const op::MultiSGDUpdate& op, KernelContext& c);
void run_cuda(const op::MultiSGDUpdate& op, KernelContext& c);
void run_cpu(const op::MultiSGDMomUpdate& op, KernelContext& c);
void run_cuda(const op::MultiSGDMomUpdate& op, KernelContext& c);

// --- Adam as operators that update the weight and its two means in place.

namespace op {
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
}  // namespace op
void run_cpu(const op::AdamUpdate& op, KernelContext& c);
void run_cuda(const op::AdamUpdate& op, KernelContext& c);
void run_cpu(const op::MultiAdamUpdate& op, KernelContext& c);
void run_cuda(const op::MultiAdamUpdate& op, KernelContext& c);

// --- _kaon_all_finite: are gradients free of inf and NaN?

namespace op {
// 1 when every element of every input is finite, else 0; float32 (1,). For loss scaling.
struct AllFinite {
  static constexpr OpTraits traits{.name = "_kaon_all_finite", .variadic = true, .in_mxnet = false, .flat = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::AllFinite& op, KernelContext& c);
void run_cuda(const op::AllFinite& op, KernelContext& c);

}  // namespace kaon
