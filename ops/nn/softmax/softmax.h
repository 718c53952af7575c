// Softmax, and outputs of networks with a built-in gradient.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- softmax, log_softmax, softmin and SoftmaxActivation, with their gradients.

namespace op {
// y = exp(x / temperature) / sum over `axis`. With use_length the second input, of data's shape without that axis, is
// the number of leading elements along it that count; the others give 0. dtype: of the result, a floating one; the
// wider of it and the data's is computed in, 16-bit data in float32 at least. ValueError unless temperature > 0.
struct Softmax {
  int axis = -1;
  std::optional<double> temperature{};
  std::optional<DType> dtype{};
  bool use_length = false;
  static constexpr OpTraits traits{.name = "softmax", .inputs = {"data", "length"}, .inplace = 0, .recomputable = true};
  static constexpr void fields(auto field) {
    field("axis", &Softmax::axis);
    field("temperature", &Softmax::temperature);
    field("dtype", &Softmax::dtype);
    field("use_length", &Softmax::use_length);
  }
  static const OpDef def;
  int num_inputs() const { return use_length ? 2 : 1; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis); }
};

// softmax of -x. use_length is an attribute of files, as in MXNet, whose operator has no lengths either: it must be
// False.
struct Softmin {
  int axis = -1;
  std::optional<double> temperature{};
  std::optional<DType> dtype{};
  bool use_length = false;
  static constexpr OpTraits traits{.name = "softmin", .inplace = 0, .recomputable = true};
  static constexpr void fields(auto field) {
    field("axis", &Softmin::axis);
    field("temperature", &Softmin::temperature);
    field("dtype", &Softmin::dtype);
    field("use_length", &Softmin::use_length);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis); }
};

// y = z - log(sum over `axis` of exp(z)), z = x / temperature. use_length as in Softmin.
struct LogSoftmax {
  int axis = -1;
  std::optional<double> temperature{};
  std::optional<DType> dtype{};
  bool use_length = false;
  static constexpr OpTraits traits{.name = "log_softmax", .inplace = 0, .recomputable = true};
  static constexpr void fields(auto field) {
    field("axis", &LogSoftmax::axis);
    field("temperature", &LogSoftmax::temperature);
    field("dtype", &LogSoftmax::dtype);
    field("use_length", &LogSoftmax::use_length);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis); }
};

// scale y (head - sum over axis of head y), y being softmax's output: the gradient of softmax(scale x).
struct BackwardSoftmax {
  int axis = -1;
  double scale = 1;
  static constexpr OpTraits traits{
      .name = "_backward_softmax", .inputs = {"head", "output"}, .inplace = 0, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("axis", &BackwardSoftmax::axis);
    field("scale", &BackwardSoftmax::scale);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

// scale (head - e^y sum over axis of head), y being log_softmax's output.
struct BackwardLogSoftmax {
  int axis = -1;
  double scale = 1;
  static constexpr OpTraits traits{
      .name = "_backward_log_softmax", .inputs = {"head", "output"}, .inplace = 0, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("axis", &BackwardLogSoftmax::axis);
    field("scale", &BackwardLogSoftmax::scale);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
}  // namespace op
void run_cpu(const op::Softmax& op, KernelContext& c);
void run_cuda(const op::Softmax& op, KernelContext& c);
void run_cpu(const op::Softmin& op, KernelContext& c);
void run_cuda(const op::Softmin& op, KernelContext& c);
void run_cpu(const op::LogSoftmax& op, KernelContext& c);
void run_cuda(const op::LogSoftmax& op, KernelContext& c);
void run_cpu(const op::BackwardSoftmax& op, KernelContext& c);
void run_cuda(const op::BackwardSoftmax& op, KernelContext& c);
void run_cpu(const op::BackwardLogSoftmax& op, KernelContext& c);
void run_cuda(const op::BackwardLogSoftmax& op, KernelContext& c);

enum class SoftmaxMode : uint8_t { instance, channel };
constexpr std::array<std::string_view, 2> enum_names(SoftmaxMode) { return {"instance", "channel"}; }

namespace op {
// softmax over all but the first axis (instance), or over axis 1 (channel). MXNet's CPU kernel takes the last axis
// alone in mode instance (docs/differences.md).
struct SoftmaxActivation {
  SoftmaxMode mode = SoftmaxMode::instance;
  static constexpr OpTraits traits{.name = "SoftmaxActivation", .inplace = 0, .recomputable = true};
  static constexpr void fields(auto field) { field("mode", &SoftmaxActivation::mode); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && q.ndim() >= 2; }
};

// y (head - sum of head y over the axes of the softmax), y being SoftmaxActivation's output.
struct BackwardSoftmaxActivation {
  SoftmaxMode mode = SoftmaxMode::instance;
  static constexpr OpTraits traits{
      .name = "_backward_SoftmaxActivation", .inputs = {"head", "output"}, .inplace = 0, .in_mxnet = false};
  static constexpr void fields(auto field) { field("mode", &BackwardSoftmaxActivation::mode); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::SoftmaxActivation& op, KernelContext& c);
void run_cuda(const op::SoftmaxActivation& op, KernelContext& c);
void run_cpu(const op::BackwardSoftmaxActivation& op, KernelContext& c);
void run_cuda(const op::BackwardSoftmaxActivation& op, KernelContext& c);

// --- SoftmaxOutput and softmax_cross_entropy: softmax with the cross-entropy gradient built in.

enum class Normalization : uint8_t { null, batch, valid };
constexpr std::array<std::string_view, 3> enum_names(Normalization) { return {"null", "batch", "valid"}; }

namespace op {
// Softmax over axis 1 (multi_output), the last axis (preserve_shape), or all but the first axis. The gradient is
// (y - onehot(label)) * grad_scale and ignores the head unless out_grad; labels equal to ignore_label give 0 when
// use_ignore. Normalization divides it by the number of labels (batch) or of labels other than ignore_label (valid);
// multi_output divides by the positions per sample instead when not valid. smooth_alpha moves that much of the
// label's probability to the other classes. A label of data's shape holds probabilities. docs/differences.md lists
// where MXNet's kernels differ from its documentation.
struct SoftmaxOutput {
  double grad_scale = 1;
  double ignore_label = -1;
  bool multi_output = false;
  bool use_ignore = false;
  bool preserve_shape = false;
  Normalization normalization = Normalization::null;
  bool out_grad = false;
  double smooth_alpha = 0;
  static constexpr OpTraits traits{.name = "SoftmaxOutput",
                                   .inputs = {"data", "label"},
                                   .inplace = 0,
                                   .infers = bit(1),
                                   .ignores_head = true,
                                   .aliases = {"Softmax"}};
  static constexpr void fields(auto field) {
    field("grad_scale", &SoftmaxOutput::grad_scale);
    field("ignore_label", &SoftmaxOutput::ignore_label);
    field("multi_output", &SoftmaxOutput::multi_output);
    field("use_ignore", &SoftmaxOutput::use_ignore);
    field("preserve_shape", &SoftmaxOutput::preserve_shape);
    field("normalization", &SoftmaxOutput::normalization);
    field("out_grad", &SoftmaxOutput::out_grad);
    field("smooth_alpha", &SoftmaxOutput::smooth_alpha);
  }
  static const OpDef def;
  ops::IndexUse index_use(std::span<const TensorView> inputs) const;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && q.ndim() >= 2; }
};

// The gradient of SoftmaxOutput from its output and the labels (and the head with out_grad).
struct BackwardSoftmaxOutput {
  double grad_scale = 1;
  double ignore_label = -1;
  bool multi_output = false;
  bool use_ignore = false;
  bool preserve_shape = false;
  Normalization normalization = Normalization::null;
  bool out_grad = false;
  double smooth_alpha = 0;
  static constexpr OpTraits traits{
      .name = "_backward_SoftmaxOutput", .inputs = {"output", "label", "head"}, .inplace = 0, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("grad_scale", &BackwardSoftmaxOutput::grad_scale);
    field("ignore_label", &BackwardSoftmaxOutput::ignore_label);
    field("multi_output", &BackwardSoftmaxOutput::multi_output);
    field("use_ignore", &BackwardSoftmaxOutput::use_ignore);
    field("preserve_shape", &BackwardSoftmaxOutput::preserve_shape);
    field("normalization", &BackwardSoftmaxOutput::normalization);
    field("out_grad", &BackwardSoftmaxOutput::out_grad);
    field("smooth_alpha", &BackwardSoftmaxOutput::smooth_alpha);
  }
  static const OpDef def;
  int num_inputs() const { return out_grad ? 3 : 2; }
  void infer(InferContext& c) const;
};

// -sum over rows of log softmax(data)[row, label[row]], shape (1,). data (n, classes), label (n,); labels outside
// the classes are clipped.
struct SoftmaxCrossEntropy {
  static constexpr OpTraits traits{.name = "softmax_cross_entropy", .inputs = {"data", "label"}, .infers = bit(1)};
  static constexpr void fields(auto) {}
  static const OpDef def;
  ops::IndexUse index_use(std::span<const TensorView> inputs) const { return {1, inputs[0].shape[1]}; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

// head * (softmax(data) - onehot(label)).
struct BackwardSoftmaxCrossEntropy {
  static constexpr OpTraits traits{
      .name = "_backward_softmax_cross_entropy", .inputs = {"head", "data", "label"}, .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::SoftmaxOutput& op, KernelContext& c);
void run_cuda(const op::SoftmaxOutput& op, KernelContext& c);
void run_cpu(const op::BackwardSoftmaxOutput& op, KernelContext& c);
void run_cuda(const op::BackwardSoftmaxOutput& op, KernelContext& c);
void run_cpu(const op::SoftmaxCrossEntropy& op, KernelContext& c);
void run_cuda(const op::SoftmaxCrossEntropy& op, KernelContext& c);
void run_cpu(const op::BackwardSoftmaxCrossEntropy& op, KernelContext& c);
void run_cuda(const op::BackwardSoftmaxCrossEntropy& op, KernelContext& c);

// --- Outputs of Module-style networks whose gradient is built in: the regressions, MakeLoss, SVMOutput and
// IdentityAttachKLSparseReg.

enum class RegressionKind : uint8_t { linear, mae, logistic };
constexpr std::array<std::string_view, 3> enum_names(RegressionKind) { return {"linear", "mae", "logistic"}; }

namespace op {
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
                                   .infers = bit(1),
                                   .ignores_head = true};
  static constexpr void fields(auto field) { field("grad_scale", &RegressionOutput::grad_scale); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};

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

// Its input. The gradient ignores the head: grad_scale, divided by the batch size (batch) or by the number of
// elements above valid_thresh (valid). The batch size is that of axis 0; MXNet takes the product of all axes but the
// last, which is the same for matrices only.
struct MakeLoss {
  double grad_scale = 1;
  double valid_thresh = 0;
  Normalization normalization = Normalization::null;
  static constexpr OpTraits traits{.name = "MakeLoss", .inplace = 0, .ignores_head = true};
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

// Its input, data (n, c) with label (n,). The gradient ignores the head: with s = 1 for a row's label, else -1, and
// r = regularization_coefficient it is -2 r s max(margin - s x, 0), or with use_linear -r s where s x < margin. A label
// that is no class is that of no column.
struct SVMOutput {
  double margin = 1;
  double regularization_coefficient = 1;
  bool use_linear = false;
  static constexpr OpTraits traits{
      .name = "SVMOutput", .inputs = {"data", "label"}, .inplace = 0, .infers = bit(1), .ignores_head = true};
  static constexpr void fields(auto field) {
    field("margin", &SVMOutput::margin);
    field("regularization_coefficient", &SVMOutput::regularization_coefficient);
    field("use_linear", &SVMOutput::use_linear);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};

// Its input, data (n, c), whose columns are to be active (near 1) with the probability t = sparseness_target: while
// training, moving_avg (c,) becomes m = momentum * old + (1 - momentum) * mean of the column, and
// penalty ((1 - t) / (1 - m) - t / m), from the Kullback-Leibler divergence of the two, is added to the gradient of
// each element; m counts as a constant there. Outputs: the data; hidden: m.
struct IdentityAttachKLSparseReg {
  double sparseness_target = 0.1;
  double penalty = 0.001;
  double momentum = 0.9;
  static constexpr OpTraits traits{.name = "IdentityAttachKLSparseReg",
                                   .inputs = {"data", "moving_avg"},
                                   .outputs = 2,
                                   .visible_outputs = 1,
                                   .inplace = 0,
                                   .mutates = bit(1),
                                   .infers = bit(1),
                                   .mode_dependent = true};
  static constexpr void fields(auto field) {
    field("sparseness_target", &IdentityAttachKLSparseReg::sparseness_target);
    field("penalty", &IdentityAttachKLSparseReg::penalty);
    field("momentum", &IdentityAttachKLSparseReg::momentum);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

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
}  // namespace op
template <RegressionKind kind>
void run_cpu(const op::RegressionOutput<kind>& op, KernelContext& c);
template <RegressionKind kind>
void run_cuda(const op::RegressionOutput<kind>& op, KernelContext& c);
void run_cpu(const op::BackwardRegressionOutput& op, KernelContext& c);
void run_cuda(const op::BackwardRegressionOutput& op, KernelContext& c);
void run_cpu(const op::MakeLoss& op, KernelContext& c);
void run_cuda(const op::MakeLoss& op, KernelContext& c);
void run_cpu(const op::SVMOutput& op, KernelContext& c);
void run_cuda(const op::SVMOutput& op, KernelContext& c);
void run_cpu(const op::IdentityAttachKLSparseReg& op, KernelContext& c);
void run_cuda(const op::IdentityAttachKLSparseReg& op, KernelContext& c);
void run_cpu(const op::BackwardMakeLoss& op, KernelContext& c);
void run_cuda(const op::BackwardMakeLoss& op, KernelContext& c);

}  // namespace kaon
