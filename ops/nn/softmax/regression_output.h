// Outputs of Module-style networks whose gradient is built in: the regressions and MakeLoss.
#pragma once

#include "kaon/ops/nn/softmax/softmax_output.h"

namespace kaon {

enum class RegressionKind : uint8_t { linear, mae, logistic };
constexpr std::array<std::string_view, 3> enum_names(RegressionKind) { return {"linear", "mae", "logistic"}; }

// linear and mae give the data, logistic its sigmoid. The gradient ignores the head: with e = output - label and
// n outputs per sample it is e grad_scale / n (linear, logistic) or sign(e) grad_scale / n (mae).
template <RegressionKind kind>
struct RegressionOutput {
  double grad_scale = 1;
  static constexpr OpTraits traits{.name = kind == RegressionKind::linear ? "LinearRegressionOutput"
                                           : kind == RegressionKind::mae  ? "MAERegressionOutput"
                                                                          : "LogisticRegressionOutput",
                                   .inputs = {"data", "label"},
                                   .inplace = 0,
                                   .infers = bit(1)};
  static constexpr void fields(auto field) { field("grad_scale", &RegressionOutput::grad_scale); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};
template <RegressionKind kind>
void run_cpu(const RegressionOutput<kind>& op, KernelContext& c);
template <RegressionKind kind>
void run_cuda(const RegressionOutput<kind>& op, KernelContext& c);

using LinearRegressionOutput = RegressionOutput<RegressionKind::linear>;
using MAERegressionOutput = RegressionOutput<RegressionKind::mae>;
using LogisticRegressionOutput = RegressionOutput<RegressionKind::logistic>;

// Their members are in regression_output.cpp.
extern template struct RegressionOutput<RegressionKind::linear>;
extern template struct RegressionOutput<RegressionKind::mae>;
extern template struct RegressionOutput<RegressionKind::logistic>;

// The gradient from output and label.
struct BackwardRegressionOutput {
  RegressionKind kind = RegressionKind::linear;
  double grad_scale = 1;
  static constexpr OpTraits traits{
      .name = "_backward_RegressionOutput", .inputs = {"output", "label"}, .inplace = 0, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("kind", &BackwardRegressionOutput::kind);
    field("grad_scale", &BackwardRegressionOutput::grad_scale);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};
void run_cpu(const BackwardRegressionOutput& op, KernelContext& c);
void run_cuda(const BackwardRegressionOutput& op, KernelContext& c);

// Its input. The gradient ignores the head: grad_scale, divided by the batch size (batch) or by the number of
// elements above valid_thresh (valid). The batch size is that of axis 0; MXNet takes the product of all axes but the
// last, which is the same for matrices only.
struct MakeLoss {
  double grad_scale = 1;
  double valid_thresh = 0;
  Normalization normalization = Normalization::null;
  static constexpr OpTraits traits{.name = "MakeLoss", .inplace = 0};
  static constexpr void fields(auto field) {
    field("grad_scale", &MakeLoss::grad_scale);
    field("valid_thresh", &MakeLoss::valid_thresh);
    field("normalization", &MakeLoss::normalization);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};
void run_cpu(const MakeLoss& op, KernelContext& c);
void run_cuda(const MakeLoss& op, KernelContext& c);

// grad_scale, divided as MakeLoss says, in data's shape.
struct BackwardMakeLoss {
  double grad_scale = 1;
  double valid_thresh = 0;
  Normalization normalization = Normalization::null;
  static constexpr OpTraits traits{.name = "_backward_MakeLoss", .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("grad_scale", &BackwardMakeLoss::grad_scale);
    field("valid_thresh", &BackwardMakeLoss::valid_thresh);
    field("normalization", &BackwardMakeLoss::normalization);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};
void run_cpu(const BackwardMakeLoss& op, KernelContext& c);
void run_cuda(const BackwardMakeLoss& op, KernelContext& c);

}  // namespace kaon
