// Copies of arrays from one device to another.
#pragma once

#include "kaon/engine/error.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/op_def.h"

namespace kaon::ops {

// Pushes the copy; shapes and dtypes are the same. To a GPU the operation ends when everything is launched and the
// source may change; from a GPU, and on the host, when the values have arrived. Throws DeviceError for arrays of two
// engines.
void push_copy_between(ArrayNode& from, ArrayNode& to, const OpLabel& label);
// Copies each array into the one at its place, in one operation. All on one device, of one engine.
void push_copies(std::span<const NDArray> from, std::span<const NDArray> to, const OpLabel& label);

// A copy on that device. Nothing is recorded.
NDArray copy_to(const NDArray& array, Device device, const std::source_location& site);

}  // namespace kaon::ops

namespace kaon {

namespace op {
// The operator that as_in_context records. MXNet's _copyto.
struct CopyTo {
  Device ctx{};
  static constexpr OpTraits traits{.name = "_copyto"};
  static constexpr void fields(auto field) { field("ctx", &CopyTo::ctx); }
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
  void grad(GradContext& g) const;
};
}  // namespace op
void run_cpu(const op::CopyTo& op, KernelContext& c);

}  // namespace kaon
