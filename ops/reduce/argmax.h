// argmax, argmin, argmax_channel: where the largest or smallest element is.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// The index of the first largest element along `axis`, or in the flattened array when there is none, in the dtype of
// the data, as in MXNet (of bool: float32). A NaN counts as the largest (NumPy). ShapeError where that dtype does not
// hold every index, which MXNet rounds or wraps: more elements than 2048 in float16, 257 in bfloat16, 256 in uint8. The
// gradient is zero.
struct ArgMax {
  std::optional<int> axis{};
  bool keepdims = false;
  static constexpr OpTraits traits{.name = "argmax", .flat = true};
  static constexpr void fields(auto field) {
    field("axis", &ArgMax::axis);
    field("keepdims", &ArgMax::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return axis && !q.is_first(*axis); }
};
void run_cpu(const ArgMax& op, KernelContext& c);
void run_cuda(const ArgMax& op, KernelContext& c);

// The same for the smallest element; a NaN counts as the smallest.
struct ArgMin {
  std::optional<int> axis{};
  bool keepdims = false;
  static constexpr OpTraits traits{.name = "argmin", .flat = true};
  static constexpr void fields(auto field) {
    field("axis", &ArgMin::axis);
    field("keepdims", &ArgMin::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return axis && !q.is_first(*axis); }
};
void run_cpu(const ArgMin& op, KernelContext& c);
void run_cuda(const ArgMin& op, KernelContext& c);

// argmax along axis 1 of a matrix: (n, c) to (n,), the class of each row.
struct ArgMaxChannel {
  static constexpr OpTraits traits{.name = "argmax_channel", .flat = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && q.ndim() >= 2; }
};
void run_cpu(const ArgMaxChannel& op, KernelContext& c);
void run_cuda(const ArgMaxChannel& op, KernelContext& c);

}  // namespace kaon
