// The operators that plans for more rows than a call has begin and end with. A light header.
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

namespace op {
// The rows of the data, then zeros; the first rows of a value. How many rows there are follows from the array of the
// call: in a graph, data and outputs have the shapes of the bucket. Exist in plans only.
struct PadRows {
  static constexpr OpTraits traits{.name = "_pad_rows", .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
};

struct TakeRows {
  static constexpr OpTraits traits{.name = "_take_rows", .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
};
}  // namespace op
void run_cpu(const op::PadRows& op, KernelContext& c);
void run_cuda(const op::PadRows& op, KernelContext& c);
void run_cpu(const op::TakeRows& op, KernelContext& c);
void run_cuda(const op::TakeRows& op, KernelContext& c);

}  // namespace kaon
