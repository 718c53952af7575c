// Updates of weights in place, by the rules of all optimizers.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"
#include "kaon/ops/optim/rules/rules.h"

namespace KAON_API kaon {

// What the update operators share: ops/optim/rules/rules.h has the rules. g = clip(rescale_grad grad), or where a rule
// says `decay` g = clip(rescale_grad grad + wd weight); a negative clip_gradient clips nothing. An operator with `mp`
// computes in a float32 copy of the weight, weight32, and float32 states, whatever the dtype of the weight; all others
// have one dtype for weight, gradient and states, of which 16-bit ones are computed in float32. States that have
// decayed below the smallest normal number become zero. There are no outputs: the updated inputs are the result.

// --- One weight. lazy_update concerns row-sparse gradients only: it has no effect.

namespace op {
using enum ops::UpdateKind;
using Shared = ops::UpdateForm::Shared;

template <bool mp>
struct SGDUpdateOf {
  double lr = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  bool lazy_update = true;
  static constexpr ops::UpdateForm form{.kind = sgd, .multi_precision = mp};
  static constexpr OpTraits traits{
      .name = mp ? "mp_sgd_update" : "sgd_update",
      .inputs = mp ? ops::Names{"weight", "grad", "weight32"} : ops::Names{"weight", "grad"},
      .outputs = 0,
      .mutates = ops::all_but_gradient(2 + mp)};
  static constexpr void fields(auto field) { ops::update_fields<SGDUpdateOf>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using SGDUpdate = SGDUpdateOf<false>;
using MPSGDUpdate = SGDUpdateOf<true>;

template <bool mp>
struct SGDMomUpdateOf {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  bool lazy_update = true;
  static constexpr ops::UpdateForm form{.kind = sgd_momentum, .multi_precision = mp};
  static constexpr OpTraits traits{
      .name = mp ? "mp_sgd_mom_update" : "sgd_mom_update",
      .inputs = mp ? ops::Names{"weight", "grad", "mom", "weight32"} : ops::Names{"weight", "grad", "mom"},
      .outputs = 0,
      .mutates = ops::all_but_gradient(3 + mp)};
  static constexpr void fields(auto field) { ops::update_fields<SGDMomUpdateOf>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using SGDMomUpdate = SGDMomUpdateOf<false>;
using MPSGDMomUpdate = SGDMomUpdateOf<true>;

// Nesterov's momentum.
template <bool mp>
struct NAGMomUpdateOf {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr ops::UpdateForm form{.kind = nag, .multi_precision = mp};
  static constexpr OpTraits traits{
      .name = mp ? "mp_nag_mom_update" : "nag_mom_update",
      .inputs = mp ? ops::Names{"weight", "grad", "mom", "weight32"} : ops::Names{"weight", "grad", "mom"},
      .outputs = 0,
      .mutates = ops::all_but_gradient(3 + mp)};
  static constexpr void fields(auto field) { ops::update_fields<NAGMomUpdateOf>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using NAGMomUpdate = NAGMomUpdateOf<false>;
using MPNAGMomUpdate = NAGMomUpdateOf<true>;

struct SignSGDUpdate {
  double lr = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr ops::UpdateForm form{.kind = signsgd};
  static constexpr OpTraits traits{
      .name = "signsgd_update", .inputs = {"weight", "grad"}, .outputs = 0, .mutates = ops::bit(0)};
  static constexpr void fields(auto field) { ops::update_fields<SignSGDUpdate>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

struct SignumUpdate {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1, wd_lh = 0;
  static constexpr ops::UpdateForm form{.kind = signum};
  static constexpr OpTraits traits{
      .name = "signum_update", .inputs = {"weight", "grad", "mom"}, .outputs = 0, .mutates = ops::all_but_gradient(3)};
  static constexpr void fields(auto field) { ops::update_fields<SignumUpdate>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// gamma1 is the rule's beta1.
struct RMSPropUpdate {
  double lr = 0, gamma1 = 0.95, epsilon = 1e-8, wd = 0, rescale_grad = 1, clip_gradient = -1, clip_weights = -1;
  static constexpr ops::UpdateForm form{.kind = rmsprop};
  static constexpr OpTraits traits{
      .name = "rmsprop_update", .inputs = {"weight", "grad", "n"}, .outputs = 0, .mutates = ops::all_but_gradient(3)};
  static constexpr void fields(auto field) { ops::update_fields<RMSPropUpdate>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// gamma1 is the rule's beta1, gamma2 its momentum.
struct RMSPropAlexUpdate {
  double lr = 0, gamma1 = 0.95, gamma2 = 0.9, epsilon = 1e-8, wd = 0, rescale_grad = 1, clip_gradient = -1,
         clip_weights = -1;
  static constexpr ops::UpdateForm form{.kind = rmsprop_centered};
  static constexpr OpTraits traits{.name = "rmspropalex_update",
                                   .inputs = {"weight", "grad", "n", "g", "delta"},
                                   .outputs = 0,
                                   .mutates = ops::all_but_gradient(5)};
  static constexpr void fields(auto field) { ops::update_fields<RMSPropAlexUpdate>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

struct FtrlUpdate {
  double lr = 0, lamda1 = 0.01, beta = 1, wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr ops::UpdateForm form{.kind = ftrl};
  static constexpr OpTraits traits{
      .name = "ftrl_update", .inputs = {"weight", "grad", "z", "n"}, .outputs = 0, .mutates = ops::all_but_gradient(4)};
  static constexpr void fields(auto field) { ops::update_fields<FtrlUpdate>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The t-th update, from 1: with b = 1 - beta2^t the rule's lr is (1 - beta1^t) / (lr sqrt(b)) and x sqrt(b).
struct FTMLUpdate {
  double lr = 0, beta1 = 0.6, beta2 = 0.999, epsilon = 1e-8;
  int t = 0;
  double wd = 0, rescale_grad = 1, clip_grad = -1;
  static constexpr ops::UpdateForm form{.kind = ftml};
  static constexpr OpTraits traits{.name = "ftml_update",
                                   .inputs = {"weight", "grad", "d", "v", "z"},
                                   .outputs = 0,
                                   .mutates = ops::all_but_gradient(5)};
  static constexpr void fields(auto field) { ops::update_fields<FTMLUpdate>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The bias correction sqrt(1 - beta2^t) / (1 - beta1^t) is the caller's to put into lr, as in MXNet.
struct AdamUpdate {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0, rescale_grad = 1, clip_gradient = -1;
  bool lazy_update = true;
  static constexpr ops::UpdateForm form{.kind = adam};
  static constexpr OpTraits traits{.name = "adam_update",
                                   .inputs = {"weight", "grad", "mean", "var"},
                                   .outputs = 0,
                                   .mutates = ops::all_but_gradient(4)};
  static constexpr void fields(auto field) { ops::update_fields<AdamUpdate>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The rule's lr is eta lr and its wd eta wd. rescale_grad is an array of one float: where it is 0, infinite or NaN,
// nothing changes.
template <bool mp>
struct AdamWUpdateOf {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0, eta = 0, clip_gradient = -1;
  static constexpr ops::UpdateForm form{.kind = adamw, .multi_precision = mp, .shared = Shared::rescale_grad};
  static constexpr OpTraits traits{
      .name = mp ? "_mp_adamw_update" : "_adamw_update",
      .inputs = mp ? ops::Names{"weight", "grad", "mean", "var", "weight32", "rescale_grad"}
                   : ops::Names{"weight", "grad", "mean", "var", "rescale_grad"},
      .outputs = 0,
      .mutates = ops::all_but_gradient(4 + mp)};
  static constexpr void fields(auto field) { ops::update_fields<AdamWUpdateOf>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using AdamWUpdate = AdamWUpdateOf<false>;
using MPAdamWUpdate = AdamWUpdateOf<true>;

// For row-sparse gradients in MXNet; here for whole arrays.
struct SparseAdagradUpdate {
  double lr = 0, epsilon = 1e-7, wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr ops::UpdateForm form{.kind = adagrad};
  static constexpr OpTraits traits{.name = "_sparse_adagrad_update",
                                   .inputs = {"weight", "grad", "history"},
                                   .outputs = 0,
                                   .mutates = ops::all_but_gradient(3)};
  static constexpr void fields(auto field) { ops::update_fields<SparseAdagradUpdate>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// history (n, 1) <- history + the mean of g^2 in each row; weight (n, ...) <- weight - lr g / sqrt(history + epsilon).
struct GroupAdagradUpdate {
  double lr = 0, rescale_grad = 1, clip_gradient = -1, epsilon = 1e-5;
  static constexpr OpTraits traits{.name = "_contrib_group_adagrad_update",
                                   .inputs = {"weight", "grad", "history"},
                                   .outputs = 0,
                                   .mutates = ops::all_but_gradient(3)};
  static constexpr void fields(auto field) { ops::update_fields<GroupAdagradUpdate>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The first half of lamb in the t-th update, from 1: updates mean and var and gives u, in float32 with mp. With
// bias_correction x = sqrt(1 - beta2^t) and y = x / (1 - beta1^t), else 1.
template <bool mp>
struct LambPhase1Of {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  int t = 0;
  bool bias_correction = true;
  double wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr bool requires_wd = true;
  static constexpr ops::UpdateForm form{.kind = lamb_direction, .multi_precision = mp};
  static constexpr OpTraits traits{.name = mp ? "mp_lamb_update_phase1" : "lamb_update_phase1",
                                   .inputs = mp ? ops::Names{"weight", "grad", "mean", "var", "weight32"}
                                                : ops::Names{"weight", "grad", "mean", "var"},
                                   .mutates = ops::bit(2) | ops::bit(3)};
  static constexpr void fields(auto field) { ops::update_fields<LambPhase1Of>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using LambUpdatePhase1 = LambPhase1Of<false>;
using MPLambUpdatePhase1 = LambPhase1Of<true>;

// The second half: weight <- weight - lr r g with r = min(max(r1, lower_bound), upper_bound) / r2, or 1 where either is
// 0. r1 and r2 are arrays of one number, the norms of the weight and of g.
template <bool mp>
struct LambPhase2Of {
  double lr = 0, lower_bound = -1, upper_bound = -1;
  static constexpr OpTraits traits{
      .name = mp ? "mp_lamb_update_phase2" : "lamb_update_phase2",
      .inputs = mp ? ops::Names{"weight", "g", "r1", "r2", "weight32"} : ops::Names{"weight", "g", "r1", "r2"},
      .outputs = 0,
      .mutates = ops::bit(0) | (mp ? ops::bit(4) : 0)};
  static constexpr void fields(auto field) { ops::update_fields<LambPhase2Of>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using LambUpdatePhase2 = LambPhase2Of<false>;
using MPLambUpdatePhase2 = LambPhase2Of<true>;

// --- Many weights: inputs weight0, grad0, states..., weight1, ...; bit-equal to the updates of each. num_weights must
// be their number, and tuples have a number for each.

template <bool mp>
struct MultiSGDUpdateOf {
  FloatTuple lrs{}, wds{};
  double rescale_grad = 1, clip_gradient = -1;
  int num_weights = 1;
  static constexpr ops::UpdateForm form{.kind = sgd, .multi_precision = mp, .multi = true};
  static constexpr OpTraits traits{.name = mp ? "multi_mp_sgd_update" : "multi_sgd_update",
                                   .outputs = 0,
                                   .variadic = true,
                                   .mutates = ops::all_but_gradient(2 + mp),
                                   .mutates_period = 2 + mp};
  static constexpr void fields(auto field) { ops::update_fields<MultiSGDUpdateOf>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using MultiSGDUpdate = MultiSGDUpdateOf<false>;
using MultiMPSGDUpdate = MultiSGDUpdateOf<true>;

template <bool mp>
struct MultiSGDMomUpdateOf {
  FloatTuple lrs{}, wds{};
  double momentum = 0, rescale_grad = 1, clip_gradient = -1;
  int num_weights = 1;
  static constexpr ops::UpdateForm form{.kind = sgd_momentum, .multi_precision = mp, .multi = true};
  static constexpr OpTraits traits{.name = mp ? "multi_mp_sgd_mom_update" : "multi_sgd_mom_update",
                                   .outputs = 0,
                                   .variadic = true,
                                   .mutates = ops::all_but_gradient(3 + mp),
                                   .mutates_period = 3 + mp};
  static constexpr void fields(auto field) { ops::update_fields<MultiSGDMomUpdateOf>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using MultiSGDMomUpdate = MultiSGDMomUpdateOf<false>;
using MultiMPSGDMomUpdate = MultiSGDMomUpdateOf<true>;

// The last two inputs are float32 (n,): the learning rates and the weight decays.
template <bool mp>
struct PreloadedMultiSGDUpdateOf {
  double rescale_grad = 1, clip_gradient = -1;
  int num_weights = 1;
  static constexpr ops::UpdateForm form{
      .kind = sgd, .multi_precision = mp, .multi = true, .shared = Shared::lrs_and_wds};
  static constexpr OpTraits traits{.name = mp ? "preloaded_multi_mp_sgd_update" : "preloaded_multi_sgd_update",
                                   .outputs = 0,
                                   .variadic = true,
                                   .mutates = ops::all_but_gradient(2 + mp),
                                   .mutates_period = 2 + mp,
                                   .ungrouped = 2};
  static constexpr void fields(auto field) { ops::update_fields<PreloadedMultiSGDUpdateOf>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using PreloadedMultiSGDUpdate = PreloadedMultiSGDUpdateOf<false>;
using PreloadedMultiMPSGDUpdate = PreloadedMultiSGDUpdateOf<true>;

template <bool mp>
struct PreloadedMultiSGDMomUpdateOf {
  double momentum = 0, rescale_grad = 1, clip_gradient = -1;
  int num_weights = 1;
  static constexpr ops::UpdateForm form{
      .kind = sgd_momentum, .multi_precision = mp, .multi = true, .shared = Shared::lrs_and_wds};
  static constexpr OpTraits traits{.name = mp ? "preloaded_multi_mp_sgd_mom_update" : "preloaded_multi_sgd_mom_update",
                                   .outputs = 0,
                                   .variadic = true,
                                   .mutates = ops::all_but_gradient(3 + mp),
                                   .mutates_period = 3 + mp,
                                   .ungrouped = 2};
  static constexpr void fields(auto field) { ops::update_fields<PreloadedMultiSGDMomUpdateOf>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using PreloadedMultiSGDMomUpdate = PreloadedMultiSGDMomUpdateOf<false>;
using PreloadedMultiMPSGDMomUpdate = PreloadedMultiSGDMomUpdateOf<true>;

// As _adamw_update; the last input is rescale_grad.
template <bool mp>
struct MultiAdamWUpdateOf {
  FloatTuple lrs{};
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  FloatTuple wds{}, etas{};
  double clip_gradient = -1;
  int num_weights = 1;
  static constexpr ops::UpdateForm form{
      .kind = adamw, .multi_precision = mp, .multi = true, .shared = Shared::rescale_grad};
  static constexpr OpTraits traits{.name = mp ? "_multi_mp_adamw_update" : "_multi_adamw_update",
                                   .outputs = 0,
                                   .variadic = true,
                                   .mutates = ops::all_but_gradient(4 + mp),
                                   .mutates_period = 4 + mp,
                                   .ungrouped = 1};
  static constexpr void fields(auto field) { ops::update_fields<MultiAdamWUpdateOf>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using MultiAdamWUpdate = MultiAdamWUpdateOf<false>;
using MultiMPAdamWUpdate = MultiAdamWUpdateOf<true>;

// step_count: the number of this update for each weight, from 1; x and y as in lamb_update_phase1.
template <bool mp>
struct MultiLambUpdateOf {
  FloatTuple learning_rates{};
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  FloatTuple wds{};
  double rescale_grad = 1, lower_bound = -1, upper_bound = -1, clip_gradient = -1;
  bool bias_correction = true;
  IntTuple step_count{};
  int num_tensors = 1;
  static constexpr ops::UpdateForm form{.kind = lamb, .multi_precision = mp, .multi = true};
  static constexpr OpTraits traits{.name = mp ? "_multi_mp_lamb_update" : "_multi_lamb_update",
                                   .outputs = 0,
                                   .variadic = true,
                                   .mutates = ops::all_but_gradient(4 + mp),
                                   .mutates_period = 4 + mp};
  static constexpr void fields(auto field) { ops::update_fields<MultiLambUpdateOf>(field); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using MultiLambUpdate = MultiLambUpdateOf<false>;
using MultiMPLambUpdate = MultiLambUpdateOf<true>;

// Any rule but the parts of lamb and norms, in groups of `arrays` arrays: {weight, grad, states...} or, where these are
// one less, with weight32 as the last, of shape (0,) for a weight that is not of 16 bits and has no such copy. Then
// comes `rates`, float32 (4 n,): the n learning rates, weight decays, numbers x and numbers y; and perhaps a factor of
// rescale_grad, float32 (1,), where 0 leaves everything as it is. The output is an empty float32 array, which fails
// when the update does: weights that it has not touched do not.
template <int arrays>
struct MultiUpdate : ops::UpdateRule {
  static constexpr const char* names[] = {"_kaon_multi_update2", "_kaon_multi_update3", "_kaon_multi_update4",
                                          "_kaon_multi_update5", "_kaon_multi_update6"};
  static constexpr OpTraits traits{.name = names[arrays - 2],
                                   .variadic = true,
                                   .mutates = ops::all_but_gradient(arrays),
                                   .mutates_period = arrays,
                                   .ungrouped = 1,
                                   .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("rule", &MultiUpdate::kind);
    field("momentum", &MultiUpdate::momentum);
    field("beta1", &MultiUpdate::beta1);
    field("beta2", &MultiUpdate::beta2);
    field("epsilon", &MultiUpdate::epsilon);
    field("rescale_grad", &MultiUpdate::rescale_grad);
    field("clip_gradient", &MultiUpdate::clip_gradient);
    field("lamda", &MultiUpdate::lamda);
    field("beta", &MultiUpdate::beta);
    field("wd_lh", &MultiUpdate::wd_lh);
    field("clip_weights", &MultiUpdate::clip_weights);
    field("eta", &MultiUpdate::eta);
    field("lower_bound", &MultiUpdate::lower_bound);
    field("upper_bound", &MultiUpdate::upper_bound);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};
using MultiUpdate2 = MultiUpdate<2>;
using MultiUpdate3 = MultiUpdate<3>;
using MultiUpdate4 = MultiUpdate<4>;
using MultiUpdate5 = MultiUpdate<5>;
using MultiUpdate6 = MultiUpdate<6>;
}  // namespace op

template <ops::IsUpdate Op>
void run_cpu(const Op& op, KernelContext& c) {
  ops::run_update(ops::update_call(op), c);
}
template <ops::IsUpdate Op>
void run_cuda(const Op& op, KernelContext& c) {
  ops::run_update_cuda(ops::update_call(op), c);
}
template <int arrays>
void run_cpu(const op::MultiUpdate<arrays>& op, KernelContext& c) {
  ops::run_multi_update(op, arrays, c);
}
template <int arrays>
void run_cuda(const op::MultiUpdate<arrays>& op, KernelContext& c) {
  ops::run_multi_update_cuda(op, arrays, c);
}
template <bool mp>
void run_cpu(const op::LambPhase2Of<mp>& op, KernelContext& c) {
  ops::run_lamb_step(op.lr, op.lower_bound, op.upper_bound, c);
}
template <bool mp>
void run_cuda(const op::LambPhase2Of<mp>& op, KernelContext& c) {
  ops::run_lamb_step_cuda(op.lr, op.lower_bound, op.upper_bound, c);
}
void run_cpu(const op::GroupAdagradUpdate& op, KernelContext& c);
void run_cuda(const op::GroupAdagradUpdate& op, KernelContext& c);

// --- What optimizers and trainers ask of many arrays.

namespace op {
// float32 (num_arrays,): the sum of the squares of each array. Floating dtypes.
struct MultiSumSq {
  int num_arrays = 0;
  static constexpr OpTraits traits{.name = "multi_sum_sq", .variadic = true};
  static constexpr void fields(auto field) { field("num_arrays", &MultiSumSq::num_arrays, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Learning rates for layers (You, Gitman and Ginsburg 2017), float32: where neither sum is 0,
// lr eta w / (rescale_grad g + wd w + eps) with the roots w and g of the sums of squares; else lr.
struct MultiLars {
  double eta = 0, eps = 0, rescale_grad = 1;
  static constexpr OpTraits traits{.name = "multi_lars", .inputs = {"lrs", "weights_sum_sq", "grads_sum_sq", "wds"}};
  static constexpr void fields(auto field) {
    field("eta", &MultiLars::eta, true);
    field("eps", &MultiLars::eps, true);
    field("rescale_grad", &MultiLars::rescale_grad);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// 1 when every element is finite, else 0; float32 (1,). For loss scaling. init_output=False, which goes on from what
// the result holds, is refused.
struct AllFinite {
  bool init_output = true;
  static constexpr OpTraits traits{.name = "all_finite", .flat = true};
  static constexpr void fields(auto field) { field("init_output", &AllFinite::init_output); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The same of num_arrays arrays.
struct MultiAllFinite {
  int num_arrays = 1;
  bool init_output = true;
  static constexpr OpTraits traits{.name = "multi_all_finite", .variadic = true, .flat = true};
  static constexpr void fields(auto field) {
    field("num_arrays", &MultiAllFinite::num_arrays);
    field("init_output", &MultiAllFinite::init_output);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// By what a step multiplies its gradients, the inputs: float32 (1,). With the 2-norm n of all their elements times
// rescale_grad, 1 where clip_global_norm is negative or n is at most clip_global_norm, else
// clip_global_norm / (n + 1e-8); NaN where an element is not finite. Squares of float32 and 16-bit floats are added up
// in float32, 4,096 at a time.
struct GradientFactor {
  double rescale_grad = 1, clip_global_norm = -1;
  static constexpr OpTraits traits{.name = "_kaon_gradient_factor", .variadic = true, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("rescale_grad", &GradientFactor::rescale_grad);
    field("clip_global_norm", &GradientFactor::clip_global_norm);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The same for gradients of a loss that was multiplied by a scale, divided by it unless they are `unscaled` already.
// The first input is the state, float32 (2,): the scale, and for how many steps it has not changed. Where a gradient is
// not finite the result is 0, and the scale is divided by scale_factor, down to min_scale; after scale_window steps it
// is multiplied by scale_factor, up to max_scale.
struct LossScale {
  double rescale_grad = 1, clip_global_norm = -1, scale_factor = 2, scale_window = 2000, min_scale = 1,
         max_scale = 16777216;
  bool unscaled = false;
  static constexpr OpTraits traits{
      .name = "_kaon_loss_scale", .variadic = true, .mutates = ops::bit(0), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("rescale_grad", &LossScale::rescale_grad);
    field("clip_global_norm", &LossScale::clip_global_norm);
    field("scale_factor", &LossScale::scale_factor);
    field("scale_window", &LossScale::scale_window);
    field("min_scale", &LossScale::min_scale);
    field("max_scale", &LossScale::max_scale);
    field("unscaled", &LossScale::unscaled);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Fills num_arrays arrays with zeros, in place. Every dtype.
struct ResetArrays {
  int num_arrays = 0;
  static constexpr OpTraits traits{
      .name = "reset_arrays", .outputs = 0, .variadic = true, .mutates = ops::bit(0), .mutates_period = 1};
  static constexpr void fields(auto field) { field("num_arrays", &ResetArrays::num_arrays, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Adds to the first of each two arrays the second, in place: {sum, value} for each sum. Floating dtypes, one for the
// two; 16-bit ones are added in float32 and rounded once.
struct MultiAdd {
  static constexpr OpTraits traits{.name = "_kaon_multi_add",
                                   .outputs = 0,
                                   .variadic = true,
                                   .mutates = ops::bit(0),
                                   .mutates_period = 2,
                                   .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::MultiSumSq& op, KernelContext& c);
void run_cuda(const op::MultiSumSq& op, KernelContext& c);
void run_cpu(const op::GradientFactor& op, KernelContext& c);
void run_cuda(const op::GradientFactor& op, KernelContext& c);
void run_cpu(const op::LossScale& op, KernelContext& c);
void run_cuda(const op::LossScale& op, KernelContext& c);
void run_cpu(const op::MultiLars& op, KernelContext& c);
void run_cuda(const op::MultiLars& op, KernelContext& c);
void run_cpu(const op::AllFinite& op, KernelContext& c);
void run_cuda(const op::AllFinite& op, KernelContext& c);
void run_cpu(const op::MultiAllFinite& op, KernelContext& c);
void run_cuda(const op::MultiAllFinite& op, KernelContext& c);
void run_cpu(const op::ResetArrays& op, KernelContext& c);
void run_cuda(const op::ResetArrays& op, KernelContext& c);
void run_cpu(const op::MultiAdd& op, KernelContext& c);
void run_cuda(const op::MultiAdd& op, KernelContext& c);

}  // namespace kaon
