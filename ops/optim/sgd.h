// Stochastic gradient descent as operators that update the weight in place, one tensor or many at a time.
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

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
void run_cpu(const SGDUpdate& op, KernelContext& c);
void run_cuda(const SGDUpdate& op, KernelContext& c);

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
void run_cpu(const SGDMomUpdate& op, KernelContext& c);
void run_cuda(const SGDMomUpdate& op, KernelContext& c);

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
void run_cpu(const MultiSGDUpdate& op, KernelContext& c);
void run_cuda(const MultiSGDUpdate& op, KernelContext& c);

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
void run_cpu(const MultiSGDMomUpdate& op, KernelContext& c);
void run_cuda(const MultiSGDMomUpdate& op, KernelContext& c);

}  // namespace kaon
