// Activations, dropout, and functions whose gradient is not their derivative.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/elementwise/elementwise.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- Activation and LeakyReLU: the elementwise functions between layers, with their gradients.

enum class ActivationType : uint8_t { relu, sigmoid, tanh, softrelu, softsign };
constexpr std::array<std::string_view, 5> enum_names(ActivationType) {
  return {"relu", "sigmoid", "tanh", "softrelu", "softsign"};
}

namespace op {
// relu: max(x, 0); sigmoid: 1 / (1 + e^-x); softrelu: log(1 + e^x); softsign: x / (1 + |x|).
struct Activation {
  ActivationType act_type = ActivationType::relu;
  static constexpr OpTraits traits{.name = "Activation", .inplace = 0, .pointwise = true, .any_layout = true};
  static constexpr void fields(auto field) { field("act_type", &Activation::act_type, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  FusedActivation as_epilogue() const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

// head * f'(x), where f' follows from the output y: relu: y > 0; sigmoid: y (1 - y); tanh: 1 - y^2;
// softrelu: 1 - e^-y; softsign: (1 - |y|)^2.
struct BackwardActivation {
  ActivationType act_type = ActivationType::relu;
  static constexpr OpTraits traits{.name = "_backward_Activation",
                                   .inputs = {"head", "output"},
                                   .inplace = 0,
                                   .pointwise = true,
                                   .any_layout = true,
                                   .in_mxnet = false};
  static constexpr void fields(auto field) { field("act_type", &BackwardActivation::act_type, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};
}  // namespace op
void run_cpu(const op::Activation& op, KernelContext& c);
void run_cuda(const op::Activation& op, KernelContext& c);
void run_cpu(const op::BackwardActivation& op, KernelContext& c);
void run_cuda(const op::BackwardActivation& op, KernelContext& c);

enum class LeakyType : uint8_t { leaky, prelu, elu, selu, gelu, rrelu };
constexpr std::array<std::string_view, 6> enum_names(LeakyType) {
  return {"leaky", "prelu", "elu", "selu", "gelu", "rrelu"};
}

namespace op {
// x where x > 0, else: leaky: slope x; prelu: gamma x (one gamma for all, per channel, axis 1, or as a matrix that
// broadcasts to axes 0 and 1); elu: slope (e^x - 1); selu: elu with fixed slope, both halves scaled (Klambauer et al.
// 2017); rrelu: s x with s uniform in [lower_bound, upper_bound) in training, their mean otherwise.
// gelu: x Phi(x) = x (1 + erf(x / sqrt 2)) / 2 for all x (Hendrycks and Gimpel 2016).
struct LeakyReLU {
  LeakyType act_type = LeakyType::leaky;
  double slope = 0.25;
  double lower_bound = 0.125;
  double upper_bound = 0.334;
  // True for every act_type; traits_of() is exact.
  static constexpr OpTraits traits{.name = "LeakyReLU",
                                   .inputs = {"data", "gamma"},
                                   .visible_outputs = 1,
                                   .inplace = 0,
                                   .infers = bit(1),
                                   .random = true,
                                   .mode_dependent = true,
                                   .any_layout = true};
  static constexpr OpTraits pointwise_traits{.name = "LeakyReLU",
                                             .inputs = {"data", "gamma"},
                                             .visible_outputs = 1,
                                             .inplace = 0,
                                             .pointwise = true,
                                             .any_layout = true};
  static constexpr OpTraits prelu_traits{.name = "LeakyReLU",
                                         .inputs = {"data", "gamma"},
                                         .visible_outputs = 1,
                                         .inplace = 0,
                                         .infers = bit(1),
                                         .any_layout = true,
                                         .recomputable = true};
  static constexpr void fields(auto field) {
    field("act_type", &LeakyReLU::act_type);
    field("slope", &LeakyReLU::slope);
    field("lower_bound", &LeakyReLU::lower_bound);
    field("upper_bound", &LeakyReLU::upper_bound);
  }
  static const OpDef def;
  int num_inputs() const { return act_type == LeakyType::prelu ? 2 : 1; }
  int num_outputs() const { return act_type == LeakyType::rrelu ? 2 : 1; }  // rrelu keeps its slopes
  const OpTraits& traits_of() const;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && (q.num_inputs() == 1 || q.ndim() >= 2); }
};

// head * f'(x) with respect to data. f' is taken on the left side of 0, as MXNet does; selu's is the derivative, which
// MXNet's is not. Not for rrelu.
struct BackwardLeakyReLU {
  LeakyType act_type = LeakyType::leaky;
  double slope = 0.25;
  static constexpr OpTraits traits{.name = "_backward_LeakyReLU",
                                   .inputs = {"head", "data", "gamma"},
                                   .inplace = 0,
                                   .any_layout = true,
                                   .in_mxnet = false};
  static constexpr OpTraits pointwise_traits{.name = "_backward_LeakyReLU",
                                             .inputs = {"head", "data"},
                                             .inplace = 0,
                                             .pointwise = true,
                                             .any_layout = true,
                                             .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("act_type", &BackwardLeakyReLU::act_type);
    field("slope", &BackwardLeakyReLU::slope);
  }
  static const OpDef def;
  int num_inputs() const { return act_type == LeakyType::prelu ? 3 : 2; }
  const OpTraits& traits_of() const { return act_type == LeakyType::prelu ? traits : pointwise_traits; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

// The gradient of prelu's gamma: the sum of head * min(x, 0) over everything that shares one.
struct BackwardPReLUGamma {
  static constexpr OpTraits traits{
      .name = "_backward_PReLU_gamma", .inputs = {"head", "data", "gamma"}, .any_layout = true, .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::LeakyReLU& op, KernelContext& c);
void run_cuda(const op::LeakyReLU& op, KernelContext& c);
void run_cpu(const op::BackwardLeakyReLU& op, KernelContext& c);
void run_cuda(const op::BackwardLeakyReLU& op, KernelContext& c);
void run_cpu(const op::BackwardPReLUGamma& op, KernelContext& c);
void run_cuda(const op::BackwardPReLUGamma& op, KernelContext& c);

// --- Dropout: zeroes elements at random in training.

enum class DropoutMode : uint8_t { training, always };
constexpr std::array<std::string_view, 2> enum_names(DropoutMode) { return {"training", "always"}; }

namespace op {
// y = x * mask, mask being 0 with probability p and 1 / (1 - p) else (Srivastava et al. 2014, inverted). The
// identity outside training unless mode is always. Axes listed in `axes` share one draw. Outputs: y, mask (1 on
// the shared axes).
struct Dropout {
  double p = 0.5;
  DropoutMode mode = DropoutMode::training;
  Shape axes{};
  static constexpr OpTraits traits{
      .name = "Dropout", .outputs = 2, .visible_outputs = 1, .inplace = 0, .random = true, .mode_dependent = true};
  static constexpr OpTraits always_traits{
      .name = "Dropout", .outputs = 2, .visible_outputs = 1, .inplace = 0, .random = true};
  static constexpr void fields(auto field) {
    field("p", &Dropout::p);
    field("mode", &Dropout::mode);
    field("axes", &Dropout::axes);
  }
  static const OpDef def;
  const OpTraits& traits_of() const { return mode == DropoutMode::always ? always_traits : traits; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
  Shape mask_shape(const Shape& data) const;  // throws ShapeError
};
}  // namespace op
void run_cpu(const op::Dropout& op, KernelContext& c);
void run_cuda(const op::Dropout& op, KernelContext& c);

// --- quadratic, and functions of one array whose gradient is not their derivative.

namespace op {
// a x^2 + b x + c. Floating dtypes.
struct Quadratic {
  double a = 0;
  double b = 0;
  double c = 0;
  static constexpr OpTraits traits{.name = "_contrib_quadratic", .inplace = 0, .pointwise = true, .any_layout = true};
  static constexpr void fields(auto field) {
    field("a", &Quadratic::a);
    field("b", &Quadratic::b);
    field("c", &Quadratic::c);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

// round and sign with the gradient of the identity: straight-through estimators. Numbers; NaN stays.
template <ops::UnaryKind K>
struct StraightThrough {
  static constexpr OpTraits traits{.name = K == ops::UnaryKind::round ? "_contrib_round_ste" : "_contrib_sign_ste",
                                   .inplace = 0,
                                   .pointwise = true,
                                   .any_layout = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_unary(K, c); }
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};
using RoundSte = StraightThrough<ops::UnaryKind::round>;
using SignSte = StraightThrough<ops::UnaryKind::sign>;

// x, with `scalar` times the gradient. Any dtype. is_int as in Scalar.
struct GradientMultiplier {
  double scalar = 1;
  bool is_int = true;
  static constexpr OpTraits traits{
      .name = "_contrib_gradientmultiplier", .inplace = 0, .pointwise = true, .any_layout = true};
  static constexpr void fields(auto field) {
    field("scalar", &GradientMultiplier::scalar);
    field("is_int", &GradientMultiplier::is_int);
  }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_unary(ops::UnaryKind::identity, c); }
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

// x, with a gradient of ones whatever arrives: the end of a net that computes its loss itself. Any dtype. MakeLoss has
// scales for it.
struct UnitLoss {
  static constexpr OpTraits traits{
      .name = "make_loss", .inplace = 0, .pointwise = true, .any_layout = true, .ignores_head = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_unary(ops::UnaryKind::identity, c); }
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};
}  // namespace op
template <ops::UnaryKind K>
void run_cpu(const op::StraightThrough<K>&, KernelContext& c) {
  ops::run_unary(K, c);
}
template <ops::UnaryKind K>
void run_cuda(const op::StraightThrough<K>&, KernelContext& c) {
  ops::run_unary_cuda(K, c);
}
void run_cpu(const op::GradientMultiplier& op, KernelContext& c);
void run_cuda(const op::GradientMultiplier& op, KernelContext& c);
void run_cpu(const op::UnitLoss& op, KernelContext& c);
void run_cuda(const op::UnitLoss& op, KernelContext& c);
void run_cpu(const op::Quadratic& op, KernelContext& c);
void run_cuda(const op::Quadratic& op, KernelContext& c);

// --- More activations, element by element. Floating dtypes; NaN stays.

namespace ops {
enum class PlainActivation : uint8_t { silu, mish, log_sigmoid, hard_swish, tanh_shrink };

constexpr OpTraits activation_traits(std::string_view name) {
  return {.name = name, .inplace = 0, .pointwise = true, .any_layout = true, .in_mxnet = false};
}
inline constexpr std::array<std::string_view, 5> plain_activation_names{"silu", "mish", "log_sigmoid", "hard_swish",
                                                                        "tanh_shrink"};
}  // namespace ops

namespace op {
// silu: x sigmoid(x); mish: x tanh(log(1 + e^x)); log_sigmoid: log(sigmoid(x)); hard_swish: x min(max(x / 6 + 1 / 2,
// 0), 1); tanh_shrink: x - tanh(x).
template <ops::PlainActivation K>
struct Plain {
  static constexpr OpTraits traits = ops::activation_traits(ops::plain_activation_names[size_t(K)]);
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};
using Silu = Plain<ops::PlainActivation::silu>;
using Mish = Plain<ops::PlainActivation::mish>;
using LogSigmoid = Plain<ops::PlainActivation::log_sigmoid>;
using HardSwish = Plain<ops::PlainActivation::hard_swish>;
using TanhShrink = Plain<ops::PlainActivation::tanh_shrink>;

// x where |x| > lambd, else 0. lambd is not negative, here and below.
struct HardShrink {
  double lambd = 0.5;
  static constexpr OpTraits traits = ops::activation_traits("hard_shrink");
  static constexpr void fields(auto field) { field("lambd", &HardShrink::lambd); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

// x moved towards 0 by lambd, 0 where |x| <= lambd.
struct SoftShrink {
  double lambd = 0.5;
  static constexpr OpTraits traits = ops::activation_traits("soft_shrink");
  static constexpr void fields(auto field) { field("lambd", &SoftShrink::lambd); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

// max(x, 0) + min(alpha (e^(x / alpha) - 1), 0), alpha > 0.
struct Celu {
  double alpha = 1;
  static constexpr OpTraits traits = ops::activation_traits("celu");
  static constexpr void fields(auto field) { field("alpha", &Celu::alpha); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

// x where x > threshold, else value.
struct Threshold {
  double threshold = 0;
  double value = 0;
  static constexpr OpTraits traits = ops::activation_traits("threshold");
  static constexpr void fields(auto field) {
    field("threshold", &Threshold::threshold);
    field("value", &Threshold::value);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
};

// a sigmoid(b), a and b the first and the second half of x along `axis`, whose size is even.
struct Glu {
  int axis = -1;
  static constexpr OpTraits traits{.name = "glu", .recomputable = true, .in_mxnet = false};
  static constexpr void fields(auto field) { field("axis", &Glu::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return !q.is_first(axis); }
};
}  // namespace op

namespace ops {
void run_plain_activation(PlainActivation kind, KernelContext& c);
void run_plain_activation_cuda(PlainActivation kind, KernelContext& c);
}  // namespace ops

template <ops::PlainActivation K>
void run_cpu(const op::Plain<K>&, KernelContext& c) {
  ops::run_plain_activation(K, c);
}
template <ops::PlainActivation K>
void run_cuda(const op::Plain<K>&, KernelContext& c) {
  ops::run_plain_activation_cuda(K, c);
}
void run_cpu(const op::HardShrink& op, KernelContext& c);
void run_cuda(const op::HardShrink& op, KernelContext& c);
void run_cpu(const op::SoftShrink& op, KernelContext& c);
void run_cuda(const op::SoftShrink& op, KernelContext& c);
void run_cpu(const op::Celu& op, KernelContext& c);
void run_cuda(const op::Celu& op, KernelContext& c);
void run_cpu(const op::Threshold& op, KernelContext& c);
void run_cuda(const op::Threshold& op, KernelContext& c);
void run_cpu(const op::Glu& op, KernelContext& c);
void run_cuda(const op::Glu& op, KernelContext& c);

}  // namespace kaon
