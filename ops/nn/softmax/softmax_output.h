// SoftmaxOutput and softmax_cross_entropy: softmax with the cross-entropy gradient built in.
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

enum class Normalization : uint8_t { null, batch, valid };
constexpr std::array<std::string_view, 3> enum_names(Normalization) { return {"null", "batch", "valid"}; }

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
  static constexpr OpTraits traits{
      .name = "SoftmaxOutput", .inputs = {"data", "label"}, .inplace = 0, .infers = bit(1), .aliases = {"Softmax"}};
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
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && q.ndim() >= 2; }
};
void run_cpu(const SoftmaxOutput& op, KernelContext& c);
void run_cuda(const SoftmaxOutput& op, KernelContext& c);

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
void run_cpu(const BackwardSoftmaxOutput& op, KernelContext& c);
void run_cuda(const BackwardSoftmaxOutput& op, KernelContext& c);

// -sum over rows of log softmax(data)[row, label[row]], shape (1,). data (n, classes), label (n,); labels outside
// the classes are clipped.
struct SoftmaxCrossEntropy {
  static constexpr OpTraits traits{.name = "softmax_cross_entropy", .inputs = {"data", "label"}, .infers = bit(1)};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const SoftmaxCrossEntropy& op, KernelContext& c);
void run_cuda(const SoftmaxCrossEntropy& op, KernelContext& c);

// head * (softmax(data) - onehot(label)).
struct BackwardSoftmaxCrossEntropy {
  static constexpr OpTraits traits{
      .name = "_backward_softmax_cross_entropy", .inputs = {"head", "data", "label"}, .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
};
void run_cpu(const BackwardSoftmaxCrossEntropy& op, KernelContext& c);
void run_cuda(const BackwardSoftmaxCrossEntropy& op, KernelContext& c);

}  // namespace kaon
