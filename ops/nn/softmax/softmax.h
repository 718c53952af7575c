// softmax, log_softmax, softmin and SoftmaxActivation, with their gradients.
#pragma once

#include <optional>

#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

// y = exp(x / temperature) / sum over `axis`. With use_length the second input, of data's shape without the last axis,
// is the number of leading elements of each row that count (last axis only); the others give 0. dtype: of the result,
// the data's own or float32 for 16-bit data. Sums in float32 for 16-bit data. ValueError unless temperature > 0.
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
void run_cpu(const Softmax& op, KernelContext& c);
void run_cuda(const Softmax& op, KernelContext& c);

// softmax of -x.
struct Softmin {
  int axis = -1;
  std::optional<double> temperature{};
  std::optional<DType> dtype{};
  static constexpr OpTraits traits{.name = "softmin", .inplace = 0, .recomputable = true};
  static constexpr void fields(auto field) {
    field("axis", &Softmin::axis);
    field("temperature", &Softmin::temperature);
    field("dtype", &Softmin::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis); }
};
void run_cpu(const Softmin& op, KernelContext& c);
void run_cuda(const Softmin& op, KernelContext& c);

// y = z - log(sum over `axis` of exp(z)), z = x / temperature.
struct LogSoftmax {
  int axis = -1;
  std::optional<double> temperature{};
  std::optional<DType> dtype{};
  static constexpr OpTraits traits{.name = "log_softmax", .inplace = 0, .recomputable = true};
  static constexpr void fields(auto field) {
    field("axis", &LogSoftmax::axis);
    field("temperature", &LogSoftmax::temperature);
    field("dtype", &LogSoftmax::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis); }
};
void run_cpu(const LogSoftmax& op, KernelContext& c);
void run_cuda(const LogSoftmax& op, KernelContext& c);

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
void run_cpu(const BackwardSoftmax& op, KernelContext& c);
void run_cuda(const BackwardSoftmax& op, KernelContext& c);

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
void run_cpu(const BackwardLogSoftmax& op, KernelContext& c);
void run_cuda(const BackwardLogSoftmax& op, KernelContext& c);

enum class SoftmaxMode : uint8_t { instance, channel };
constexpr std::array<std::string_view, 2> enum_names(SoftmaxMode) { return {"instance", "channel"}; }

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
void run_cpu(const SoftmaxActivation& op, KernelContext& c);
void run_cuda(const SoftmaxActivation& op, KernelContext& c);

// y (head - sum of head y over the axes of the softmax), y being SoftmaxActivation's output.
struct BackwardSoftmaxActivation {
  SoftmaxMode mode = SoftmaxMode::instance;
  static constexpr OpTraits traits{
      .name = "_backward_SoftmaxActivation", .inputs = {"head", "output"}, .inplace = 0, .in_mxnet = false};
  static constexpr void fields(auto field) { field("mode", &BackwardSoftmaxActivation::mode); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
void run_cpu(const BackwardSoftmaxActivation& op, KernelContext& c);
void run_cuda(const BackwardSoftmaxActivation& op, KernelContext& c);

}  // namespace kaon
