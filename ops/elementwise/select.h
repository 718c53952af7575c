// where and clip: elements chosen by a condition or by bounds.
#pragma once

#include <limits>

#include "kaon/ops/operator/op_def.h"

namespace kaon {

// y = condition != 0 ? x : y, element by element; a 1-D condition chooses whole rows of x and y. All have one shape
// (ShapeError), x and y one dtype (TypeError). No gradient flows to the condition, which may have another dtype.
struct Where {
  static constexpr OpTraits traits{
      .name = "where", .inputs = {"condition", "x", "y"}, .inplace = 1, .pointwise = true, .any_layout = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  FusedForms fused_forms(const RegisterKernels& k) const;
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() || (q.ndim() == q.ndim(1) && q.is_aligned()); }
};
void run_cpu(const Where& op, KernelContext& c);
void run_cuda(const Where& op, KernelContext& c);

// min(max(x, a_min), a_max); NaN stays. Integers are clamped to the integers inside the bounds; ValueError when there
// is none. Files must give both bounds; in a program a missing one is infinite.
struct Clip {
  double a_min = -std::numeric_limits<double>::infinity();
  double a_max = std::numeric_limits<double>::infinity();
  static constexpr OpTraits traits{.name = "clip", .inplace = 0, .pointwise = true, .any_layout = true};
  static constexpr void fields(auto field) {
    field("a_min", &Clip::a_min, true);
    field("a_max", &Clip::a_max, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  FusedForms fused_forms(const RegisterKernels& k) const;
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const;
};
void run_cpu(const Clip& op, KernelContext& c);
void run_cuda(const Clip& op, KernelContext& c);

// The head where a_min <= data <= a_max, else 0.
struct ClipBackward {
  double a_min = -std::numeric_limits<double>::infinity();
  double a_max = std::numeric_limits<double>::infinity();
  static constexpr OpTraits traits{.name = "_backward_clip",
                                   .inputs = {"head", "data"},
                                   .inplace = 0,
                                   .pointwise = true,
                                   .any_layout = true,
                                   .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("a_min", &ClipBackward::a_min, true);
    field("a_max", &ClipBackward::a_max, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  FusedForms fused_forms(const RegisterKernels& k) const;
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const;
};
void run_cpu(const ClipBackward& op, KernelContext& c);
void run_cuda(const ClipBackward& op, KernelContext& c);

}  // namespace kaon
