// Functions of one array, element by element: y = f(x). NaN propagates. Formulae: the C functions of the same
// name, and relu = max(x, 0), sigmoid = 1 / (1 + e^-x), softsign = x / (1 + |x|), softrelu = log(1 + e^x),
// gelu = x/2 (1 + erf(x / sqrt 2)), rint = nearest with halves downwards, round = halves away from zero.
#pragma once

#include "kaon/ops/operator/op_def.h"
#include "kaon/ops/unary_kind.h"

namespace kaon {

void infer_unary(UnaryKind kind, InferContext& c);
void grad_unary(UnaryKind kind, GradContext& g);
FusedForms fused_unary(UnaryKind kind, const RegisterKernels& k);
FusedActivation unary_epilogue(UnaryKind kind);
void run_unary(UnaryKind kind, KernelContext& c);
void run_unary_cuda(UnaryKind kind, KernelContext& c);
void infer_unary_backward(InferContext& c);
void grad_unary_backward(UnaryBackwardKind kind, GradContext& g);
FusedForms fused_unary_backward(UnaryBackwardKind kind, const RegisterKernels& k);
void run_unary_backward(UnaryBackwardKind kind, KernelContext& c);
void run_unary_backward_cuda(UnaryBackwardKind kind, KernelContext& c);

constexpr OpTraits unary_traits(UnaryKind kind) {
  OpTraits t{.name = info(kind).name, .inplace = 0, .pointwise = true, .any_layout = true};
  t.in_mxnet = info(kind).in_mxnet;
  t.flat = is_flat(kind);
  if (!info(kind).alias.empty()) t.aliases = Names(info(kind).alias);
  return t;
}

template <UnaryKind K>
struct Unary {
  static constexpr OpTraits traits = unary_traits(K);
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { infer_unary(K, c); }
  void grad(GradContext& g) const requires(!is_flat(K)) { grad_unary(K, g); }
  FusedForms fused_forms(const RegisterKernels& k) const { return fused_unary(K, k); }
  FusedActivation as_epilogue() const { return unary_epilogue(K); }
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const { return unary_expression(K, a); }
};
template <UnaryKind K>
void run_cpu(const Unary<K>&, KernelContext& c) {
  run_unary(K, c);
}
template <UnaryKind K>
void run_cuda(const Unary<K>&, KernelContext& c) {
  run_unary_cuda(K, c);
}
template <UnaryKind K>
constinit const OpDef Unary<K>::def = make_op_def<Unary<K>>();

inline constexpr std::array<std::string_view, size_t(unary_backward_kinds)> unary_backward_names{
    "_backward_relu", "_backward_sigmoid", "_backward_tanh", "_backward_gelu"};

// head * f'(x), computed from the output of f (gelu: from its input).
template <UnaryBackwardKind K>
struct UnaryBackward {
  static constexpr OpTraits traits{.name = unary_backward_names[size_t(K)],
                                   .inputs = {"head", "saved"},
                                   .inplace = 0,
                                   .pointwise = true,
                                   .any_layout = true,
                                   .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { infer_unary_backward(c); }
  void grad(GradContext& g) const { grad_unary_backward(K, g); }
  FusedForms fused_forms(const RegisterKernels& k) const { return fused_unary_backward(K, k); }
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const {
    return unary_backward_expression(K, a);
  }
};
template <UnaryBackwardKind K>
void run_cpu(const UnaryBackward<K>&, KernelContext& c) {
  run_unary_backward(K, c);
}
template <UnaryBackwardKind K>
void run_cuda(const UnaryBackward<K>&, KernelContext& c) {
  run_unary_backward_cuda(K, c);
}
template <UnaryBackwardKind K>
constinit const OpDef UnaryBackward<K>::def = make_op_def<UnaryBackward<K>>();

using Relu = Unary<UnaryKind::relu>;
using Sigmoid = Unary<UnaryKind::sigmoid>;
using Tanh = Unary<UnaryKind::tanh>;
using Exp = Unary<UnaryKind::exp>;
using Log = Unary<UnaryKind::log>;
using Sqrt = Unary<UnaryKind::sqrt>;
using Rsqrt = Unary<UnaryKind::rsqrt>;
using Square = Unary<UnaryKind::square>;
using Abs = Unary<UnaryKind::abs>;
using Sign = Unary<UnaryKind::sign>;
using Negative = Unary<UnaryKind::negative>;
using Reciprocal = Unary<UnaryKind::reciprocal>;
using Erf = Unary<UnaryKind::erf>;
using Log1p = Unary<UnaryKind::log1p>;
using Expm1 = Unary<UnaryKind::expm1>;
using Log2 = Unary<UnaryKind::log2>;
using Log10 = Unary<UnaryKind::log10>;
using Sin = Unary<UnaryKind::sin>;
using Cos = Unary<UnaryKind::cos>;
using Tan = Unary<UnaryKind::tan>;
using Arcsin = Unary<UnaryKind::arcsin>;
using Arccos = Unary<UnaryKind::arccos>;
using Arctan = Unary<UnaryKind::arctan>;
using Sinh = Unary<UnaryKind::sinh>;
using Cosh = Unary<UnaryKind::cosh>;
using Arcsinh = Unary<UnaryKind::arcsinh>;
using Arccosh = Unary<UnaryKind::arccosh>;
using Arctanh = Unary<UnaryKind::arctanh>;
using Floor = Unary<UnaryKind::floor>;
using Ceil = Unary<UnaryKind::ceil>;
using Round = Unary<UnaryKind::round>;
using Rint = Unary<UnaryKind::rint>;
using Trunc = Unary<UnaryKind::trunc>;
using Fix = Unary<UnaryKind::fix>;
using Cbrt = Unary<UnaryKind::cbrt>;
using Rcbrt = Unary<UnaryKind::rcbrt>;
using Softsign = Unary<UnaryKind::softsign>;
using SoftRelu = Unary<UnaryKind::softrelu>;
using Gelu = Unary<UnaryKind::gelu>;
using LogicalNot = Unary<UnaryKind::logical_not>;
using Degrees = Unary<UnaryKind::degrees>;
using Radians = Unary<UnaryKind::radians>;
using Gamma = Unary<UnaryKind::gamma>;
using GammaLn = Unary<UnaryKind::gammaln>;
using Digamma = Unary<UnaryKind::digamma>;
using Copy = Unary<UnaryKind::identity>;
using BlockGrad = Unary<UnaryKind::stop_gradient>;
using ZerosLike = Unary<UnaryKind::zeros_like>;
using OnesLike = Unary<UnaryKind::ones_like>;
using BackwardRelu = UnaryBackward<UnaryBackwardKind::relu>;
using BackwardSigmoid = UnaryBackward<UnaryBackwardKind::sigmoid>;
using BackwardTanh = UnaryBackward<UnaryBackwardKind::tanh>;
using BackwardGelu = UnaryBackward<UnaryBackwardKind::gelu>;

}  // namespace kaon
