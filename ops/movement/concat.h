// Concat, stack and their inverse, SliceChannel (split).
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// Arrays one after the other along axis `dim`; their other dimensions are equal.
struct Concat {
  int dim = 1;
  int num_args = 0;  // number of arrays; set by the call
  static constexpr OpTraits traits{
      .name = "Concat", .inputs = Names("arg"), .variadic = true, .recomputable = true, .aliases = Names("concat")};
  static constexpr void fields(auto field) {
    field("num_args", &Concat::num_args, true);
    field("dim", &Concat::dim);
  }
  static const OpDef def;
  int num_inputs() const { return num_args > 0 ? num_args : -1; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(dim); }
};
void run_cpu(const Concat& op, KernelContext& c);
void run_cuda(const Concat& op, KernelContext& c);

// Arrays of one shape along a new axis.
struct Stack {
  int axis = 0;
  int num_args = 0;  // number of arrays; set by the call
  static constexpr OpTraits traits{.name = "stack", .inputs = Names("arg"), .variadic = true, .recomputable = true};
  static constexpr void fields(auto field) {
    field("num_args", &Stack::num_args, true);
    field("axis", &Stack::axis);
  }
  static const OpDef def;
  int num_inputs() const { return num_args > 0 ? num_args : -1; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis, q.ndim() + 1); }
};
void run_cpu(const Stack& op, KernelContext& c);
void run_cuda(const Stack& op, KernelContext& c);

// num_outputs equal parts along an axis; `squeeze_axis` drops the axis, which must then have size num_outputs.
struct SliceChannel {
  int num_outputs = 1;
  int axis = 1;
  bool squeeze_axis = false;
  static constexpr OpTraits traits{.name = "SliceChannel", .recomputable = true, .aliases = Names("split")};
  static constexpr void fields(auto field) {
    field("num_outputs", &SliceChannel::num_outputs, true);
    field("axis", &SliceChannel::axis);
    field("squeeze_axis", &SliceChannel::squeeze_axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis); }
};
void run_cpu(const SliceChannel& op, KernelContext& c);
void run_cuda(const SliceChannel& op, KernelContext& c);

}  // namespace kaon
