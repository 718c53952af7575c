// Normalisations: batch and layer, with their gradients, and those that are made of others.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- Batch normalisation and its gradient.

namespace op {
// y = gamma (x - mean) / sqrt(var + eps) + beta per index of `axis`. While training (and not use_global_stats) mean and
// var are the batch's, var biased, and moving_mean and moving_var become momentum * old + (1 - momentum) * batch;
// otherwise the moving values are used and stay. fix_gamma takes gamma for 1, and leaves the array as it is, where
// MXNet overwrites it. Outputs: y; hidden: mean and 1 / sqrt(var + eps), the latter negative when the moving values
// were used, which is how the gradient knows. With output_mean_var three outputs: y, mean and 1 / sqrt(var + eps); the
// latter with its sign is hidden behind them. Floating dtypes; with 16-bit data the other arrays may be float32. Sums
// are taken in a fixed order.
struct BatchNorm {
  double eps = 1e-3;
  double momentum = 0.9;
  bool fix_gamma = true;
  bool use_global_stats = false;
  bool output_mean_var = false;
  int axis = 1;
  bool cudnn_off = false;
  std::optional<double> min_calib_range{};
  std::optional<double> max_calib_range{};
  static constexpr OpTraits traits{.name = "BatchNorm",
                                   .inputs = Names("data", "gamma", "beta", "moving_mean", "moving_var"),
                                   .outputs = 3,
                                   .visible_outputs = 1,
                                   .mutates = bit(3) | bit(4),
                                   .infers = bit(1) | bit(2) | bit(3) | bit(4),
                                   .mode_dependent = true,
                                   .any_layout = true};
  static constexpr OpTraits traits_with_statistics = [] {
    OpTraits t = traits;
    return t.outputs = 4, t.visible_outputs = 3, t;
  }();
  const OpTraits& traits_of() const { return output_mean_var ? traits_with_statistics : traits; }
  int num_outputs() const { return output_mean_var ? 4 : 3; }
  int signed_inverse() const { return output_mean_var ? 3 : 2; }  // the output that is negative for moving values
  static constexpr void fields(auto field) {
    field("eps", &BatchNorm::eps);
    field("momentum", &BatchNorm::momentum);
    field("fix_gamma", &BatchNorm::fix_gamma);
    field("use_global_stats", &BatchNorm::use_global_stats);
    field("output_mean_var", &BatchNorm::output_mean_var);
    field("axis", &BatchNorm::axis);
    field("cudnn_off", &BatchNorm::cudnn_off);
    field("min_calib_range", &BatchNorm::min_calib_range);
    field("max_calib_range", &BatchNorm::max_calib_range);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ImageUse image_use() const { return {.inputs = bit(0), .outputs = bit(0)}; }
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2 && !q.is_first(axis); }
};

// The gradients of data, gamma (0 when fix_gamma) and beta from BatchNorm's two hidden outputs.
struct BackwardBatchNorm {
  bool fix_gamma = true;
  int axis = 1;
  static constexpr OpTraits traits{.name = "_backward_BatchNorm",
                                   .inputs = Names("head", "data", "gamma", "mean", "inverse_std"),
                                   .outputs = 3,
                                   .any_layout = true,
                                   .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("fix_gamma", &BackwardBatchNorm::fix_gamma);
    field("axis", &BackwardBatchNorm::axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ImageUse image_use() const { return {.inputs = bit(0) | bit(1), .outputs = bit(0)}; }
};
}  // namespace op
void run_cpu(const op::BatchNorm& op, KernelContext& c);
void run_cuda(const op::BatchNorm& op, KernelContext& c);
void run_cpu(const op::BackwardBatchNorm& op, KernelContext& c);
void run_cuda(const op::BackwardBatchNorm& op, KernelContext& c);

// --- Layer normalisation and its gradient.

namespace op {
// y = gamma (x - mean) / std + beta with mean and std = sqrt(var + eps) over `axis`, var biased; gamma and beta have
// the length of that axis, or x's shape with 1 for it: a number for each row. Outputs: y; hidden: mean and std, of x's
// shape without the axis, in float32 at least; with output_mean_var both are outputs, and the axis stays as 1. Floating
// dtypes.
struct LayerNorm {
  int axis = -1;
  double eps = 1e-5;
  bool output_mean_var = false;
  static constexpr OpTraits traits{.name = "LayerNorm",
                                   .inputs = Names("data", "gamma", "beta"),
                                   .outputs = 3,
                                   .visible_outputs = 1,
                                   .infers = bit(1) | bit(2),
                                   .recomputable = true};
  static constexpr OpTraits traits_with_statistics = [] {
    OpTraits t = traits;
    return t.visible_outputs = 3, t;
  }();
  const OpTraits& traits_of() const { return output_mean_var ? traits_with_statistics : traits; }
  static constexpr void fields(auto field) {
    field("axis", &LayerNorm::axis);
    field("eps", &LayerNorm::eps);
    field("output_mean_var", &LayerNorm::output_mean_var);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2 && !q.is_first(axis); }
};

// The gradients of data, gamma and beta from LayerNorm's two hidden outputs.
struct BackwardLayerNorm {
  int axis = -1;
  static constexpr OpTraits traits{.name = "_backward_LayerNorm",
                                   .inputs = Names("head", "data", "gamma", "mean", "std"),
                                   .outputs = 3,
                                   .in_mxnet = false};
  static constexpr void fields(auto field) { field("axis", &BackwardLayerNorm::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
}  // namespace op
void run_cpu(const op::LayerNorm& op, KernelContext& c);
void run_cuda(const op::LayerNorm& op, KernelContext& c);
void run_cpu(const op::BackwardLayerNorm& op, KernelContext& c);
void run_cuda(const op::BackwardLayerNorm& op, KernelContext& c);

// --- Normalisations that are made of others. Floating dtypes; sums are taken in float32 at least.

enum class L2Mode : uint8_t { instance, channel, spatial };
constexpr std::array<std::string_view, 3> enum_names(L2Mode) { return {"instance", "channel", "spatial"}; }

namespace op {
// BatchNorm along axis 1 over all devices of a training, which here is one: `ndev` and `key` are not read. With
// output_mean_var also mean and var, where BatchNorm has 1 / sqrt(var + eps).
struct SyncBatchNorm {
  double eps = 1e-3;
  double momentum = 0.9;
  bool fix_gamma = true;
  bool use_global_stats = false;
  bool output_mean_var = false;
  int ndev = 1;
  Word key{};
  static constexpr OpTraits traits{.name = "_contrib_SyncBatchNorm",
                                   .inputs = Names("data", "gamma", "beta", "moving_mean", "moving_var"),
                                   .mutates = bit(3) | bit(4),
                                   .infers = bit(1) | bit(2) | bit(3) | bit(4),
                                   .mode_dependent = true};
  static constexpr void fields(auto field) {
    field("eps", &SyncBatchNorm::eps);
    field("momentum", &SyncBatchNorm::momentum);
    field("fix_gamma", &SyncBatchNorm::fix_gamma);
    field("use_global_stats", &SyncBatchNorm::use_global_stats);
    field("output_mean_var", &SyncBatchNorm::output_mean_var);
    field("ndev", &SyncBatchNorm::ndev);
    field("key", &SyncBatchNorm::key, true);
  }
  static const OpDef def;
  int num_outputs() const { return output_mean_var ? 3 : 1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// BatchNorm, then relu.
struct BatchNormWithReLU {
  double eps = 1e-3;
  double momentum = 0.9;
  bool fix_gamma = true;
  bool use_global_stats = false;
  bool output_mean_var = false;
  int axis = 1;
  bool cudnn_off = false;
  std::optional<double> min_calib_range{};
  std::optional<double> max_calib_range{};
  static constexpr OpTraits traits{.name = "_contrib_BatchNormWithReLU",
                                   .inputs = Names("data", "gamma", "beta", "moving_mean", "moving_var"),
                                   .mutates = bit(3) | bit(4),
                                   .infers = bit(1) | bit(2) | bit(3) | bit(4),
                                   .mode_dependent = true};
  static constexpr void fields(auto field) {
    field("eps", &BatchNormWithReLU::eps);
    field("momentum", &BatchNormWithReLU::momentum);
    field("fix_gamma", &BatchNormWithReLU::fix_gamma);
    field("use_global_stats", &BatchNormWithReLU::use_global_stats);
    field("output_mean_var", &BatchNormWithReLU::output_mean_var);
    field("axis", &BatchNormWithReLU::axis);
    field("cudnn_off", &BatchNormWithReLU::cudnn_off);
    field("min_calib_range", &BatchNormWithReLU::min_calib_range);
    field("max_calib_range", &BatchNormWithReLU::max_calib_range);
  }
  static const OpDef def;
  int num_outputs() const { return output_mean_var ? 3 : 1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// y = gamma (x - mean) / sqrt(var + eps) + beta over each image's channel: x (n, c, 1 or more axes), mean and var,
// biased, over all axes but the first two; gamma and beta (c,).
struct InstanceNorm {
  double eps = 1e-3;
  static constexpr OpTraits traits{
      .name = "InstanceNorm", .inputs = Names("data", "gamma", "beta"), .infers = bit(1) | bit(2)};
  static constexpr void fields(auto field) { field("eps", &InstanceNorm::eps); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The same over groups of c / num_groups neighbouring channels (Wu and He 2018); gamma and beta (num_groups,).
// With output_mean_var also the groups' mean and sqrt(var + eps), (n, num_groups).
struct GroupNorm {
  int num_groups = 1;
  double eps = 1e-5;
  bool output_mean_var = false;
  static constexpr OpTraits traits{
      .name = "GroupNorm", .inputs = Names("data", "gamma", "beta"), .infers = bit(1) | bit(2)};
  static constexpr void fields(auto field) {
    field("num_groups", &GroupNorm::num_groups);
    field("eps", &GroupNorm::eps);
    field("output_mean_var", &GroupNorm::output_mean_var);
  }
  static const OpDef def;
  int num_outputs() const { return output_mean_var ? 3 : 1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// x / sqrt(sum x^2 + eps), the sum over all axes but the first (instance), axis 1 (channel), or all axes but the first
// two (spatial).
struct L2Normalization {
  double eps = 1e-10;
  L2Mode mode = L2Mode::instance;
  static constexpr OpTraits traits{.name = "L2Normalization"};
  static constexpr void fields(auto field) {
    field("eps", &L2Normalization::eps);
    field("mode", &L2Normalization::mode);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// x / (knorm + alpha / nsize sum x^2)^beta, the sum over the channels (axis 1) at most nsize / 2, rounded down, away
// (Krizhevsky et al. 2012).
struct LRN {
  double alpha = 1e-4;
  double beta = 0.75;
  double knorm = 2;
  int nsize = 1;
  static constexpr OpTraits traits{.name = "LRN"};
  static constexpr void fields(auto field) {
    field("alpha", &LRN::alpha);
    field("beta", &LRN::beta);
    field("knorm", &LRN::knorm);
    field("nsize", &LRN::nsize, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// gamma x / sqrt(mean x^2 + eps), the mean over `axis`, whose length gamma has (Zhang and Sennrich 2019).
struct RMSNorm {
  int axis = -1;
  double eps = 1e-5;
  static constexpr OpTraits traits{
      .name = "RMSNorm", .inputs = Names("data", "gamma"), .infers = bit(1), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("axis", &RMSNorm::axis);
    field("eps", &RMSNorm::eps);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Mean and biased variance over `axes`.
struct Moments {
  Shape axes{};
  ops::Flag keepdims = false;
  static constexpr OpTraits traits{.name = "moments", .outputs = 2};
  static constexpr void fields(auto field) {
    field("axes", &Moments::axes);
    field("keepdims", &Moments::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

}  // namespace kaon
