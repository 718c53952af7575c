// Pad: elements added around an array.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

enum class PadMode : uint8_t { constant, edge, reflect };
constexpr std::array<std::string_view, 3> enum_names(PadMode) { return {"constant", "edge", "reflect"}; }

// pad_width (before, after) for each axis: filled with constant_value, the nearest element, or the mirror image without
// the edge element (then each width is less than the axis). Up to 4 axes.
struct Pad {
  PadMode mode = PadMode::constant;
  Shape pad_width{};
  double constant_value = 0;
  static constexpr OpTraits traits{.name = "Pad", .recomputable = true, .aliases = Names("pad")};
  static constexpr void fields(auto field) {
    field("mode", &Pad::mode, true);
    field("pad_width", &Pad::pad_width, true);
    field("constant_value", &Pad::constant_value);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery&) const { return pad_width[0] == 0 && pad_width[1] == 0; }
};
void run_cpu(const Pad& op, KernelContext& c);
void run_cuda(const Pad& op, KernelContext& c);

// Gradient of Pad in the modes edge and reflect: every element of head is added to the element it was copied from.
struct PadGrad {
  PadMode mode = PadMode::edge;
  Shape pad_width{};
  static constexpr OpTraits traits{.name = "_backward_pad", .inputs = Names("head"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("mode", &PadGrad::mode, true);
    field("pad_width", &PadGrad::pad_width, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const PadGrad& op, KernelContext& c);
void run_cuda(const PadGrad& op, KernelContext& c);

}  // namespace kaon
