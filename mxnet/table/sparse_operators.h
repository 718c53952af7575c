// Operators of sparse arrays that symbols and recorded computations hold with dense ones.
#pragma once

#include "kaon/ops/op_def.h"

namespace kaon::mxnet {

// The rows of data that indices name; zeros elsewhere. No gradient flows to the indices.
struct SparseRetain {
  static constexpr OpTraits traits{.name = "_sparse_retain", .inputs = ops::Names("data", "indices")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The sum of data^2.
struct SquareSum {
  Shape axis{};
  bool keepdims = false;
  bool exclude = false;
  static constexpr OpTraits traits{.name = "_square_sum"};
  static constexpr void fields(auto field) {
    field("axis", &SquareSum::axis);
    field("keepdims", &SquareSum::keepdims);
    field("exclude", &SquareSum::exclude);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

}  // namespace kaon::mxnet
