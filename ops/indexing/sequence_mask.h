// SequenceMask: elements after the end of each sequence set to a value.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// data (steps, batch, ...), or (batch, steps, ...) with axis 1: where step >= sequence_length[batch], `value`.
// Lengths are truncated, as in MXNet: 1.9 keeps one step. Without use_sequence_length there is no second input and the
// result is data.
struct SequenceMask {
  bool use_sequence_length = false;
  double value = 0;
  int axis = 0;
  static constexpr OpTraits traits{
      .name = "SequenceMask", .inputs = Names("data", "sequence_length"), .inplace = 0, .recomputable = true};
  static constexpr void fields(auto field) {
    field("use_sequence_length", &SequenceMask::use_sequence_length);
    field("value", &SequenceMask::value);
    field("axis", &SequenceMask::axis);
  }
  static const OpDef def;
  int num_inputs() const { return use_sequence_length ? 2 : 1; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && (!use_sequence_length || axis == 1); }
};
void run_cpu(const SequenceMask& op, KernelContext& c);
void run_cuda(const SequenceMask& op, KernelContext& c);

}  // namespace kaon
