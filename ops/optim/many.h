// What optimizers and trainers ask of many arrays, and set in them.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

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
