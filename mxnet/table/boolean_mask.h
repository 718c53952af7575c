// BooleanMask: a node of _contrib_boolean_mask.
#pragma once

#include "kaon/ops/op_def.h"

namespace kaon::mxnet {

// The shape of its result depends on values, so no plan has it: programs that contain one run node by node. Kaon's
// boolean_mask is a function for that reason.
struct BooleanMask {
  int64_t axis = 0;
  static constexpr OpTraits traits{.name = "_contrib_boolean_mask", .inputs = ops::Names("data", "index")};
  static constexpr void fields(auto field) { field("axis", &BooleanMask::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;    // throws ValueError
  void compose(ComposeContext&) const;  // never comes
  // Waits for the index.
  NDArray call(const NDArray& data, const NDArray& index) const;
};

}  // namespace kaon::mxnet
