// Dropout: zeroes elements at random in training.
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

enum class DropoutMode : uint8_t { training, always };
constexpr std::array<std::string_view, 2> enum_names(DropoutMode) { return {"training", "always"}; }

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
void run_cpu(const Dropout& op, KernelContext& c);
void run_cuda(const Dropout& op, KernelContext& c);

}  // namespace kaon
