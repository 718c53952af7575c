// What the update operators ask of their inputs.
#pragma once

#include "kaon/ops/optim/kernels/update_kernel.h"

namespace kaon::ops {

// The states among the inputs: the third of lamb_direction is the output.
constexpr int inputs_as_states(const UpdateForm& form) {
  return form.kind == UpdateKind::lamb_direction ? 2 : traits_of(form.kind).states;
}
constexpr int group_of(const UpdateForm& form) {
  return UpdateTensor::first_state + inputs_as_states(form) + int(form.multi_precision);
}
constexpr int shared_inputs(const UpdateForm& form) {
  return form.shared == UpdateForm::Shared::lrs_and_wds ? 2 : form.shared == UpdateForm::Shared::nothing ? 0 : 1;
}

// The number in an array of one, of any floating dtype.
double number_at(const TensorView& view);

// Checks the rule and inputs; `weights`: what the operator's attribute says of their number.
void check_update(InferContext& c, const UpdateCall& call, int weights);
void check_multi_update(InferContext& c, const UpdateRule& rule, int arrays);
void check_lamb_step(InferContext& c, double lr, double lower_bound, double upper_bound, bool multi_precision);

}  // namespace kaon::ops
