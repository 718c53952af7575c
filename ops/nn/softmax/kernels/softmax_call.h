// The kernel calls of each operator of the softmax family, on any device.
#pragma once

#include "kaon/ops/nn/softmax/kernels/softmax_kernel.h"
#include "kaon/ops/nn/softmax/softmax.h"

namespace kaon::ops {

struct SoftmaxCall {
  SoftmaxKind kind;
  RowView rows;
  double scale = 1;
};

inline double scale_of(const std::optional<double>& temperature) { return 1 / temperature.value_or(1); }

inline RowView softmax_rows(const Shape& shape, int axis) {
  return rows_along(shape, normalize_axis(axis, shape.ndim(), "softmax"));
}
inline RowView softmax_rows(const Shape& shape, SoftmaxMode mode) {
  if (mode == SoftmaxMode::channel) return rows_along(shape, 1);
  return {shape[0], shape.product(1, shape.ndim()), 1};
}
// The call of SoftmaxOutput and its gradient.
template <class Op>
RowView output_rows(const Op& op, const Shape& shape) {
  if (op.multi_output) return rows_along(shape, 1);
  if (op.preserve_shape) return rows_along(shape, shape.ndim() - 1);
  return {shape[0], shape.product(1, shape.ndim()), 1};
}

// SoftmaxOutput's gradient by label: (y - spread) scale, and at the label's class (y - spread + pick) scale.
struct OutputGradient {
  double scale;  // to be divided by the number of labels that count when normalization is valid
  double spread, pick;
};
inline OutputGradient output_gradient(const op::BackwardSoftmaxOutput& op, const RowView& rows, const Shape& label) {
  double divisor = 1;
  if (op.normalization == Normalization::batch) divisor = double(op.multi_output ? label[0] : label.size());
  if (op.normalization != Normalization::valid && op.multi_output) divisor *= double(rows.inner);
  const double spread = rows.n > 1 ? op.smooth_alpha / double(rows.n - 1) : 0;
  return {op.grad_scale / divisor, spread, op.smooth_alpha + spread - 1};
}

inline SoftmaxCall call_of(const op::Softmax& op, const Shape& shape) {
  return {SoftmaxKind::plain, softmax_rows(shape, op.axis), scale_of(op.temperature)};
}
inline SoftmaxCall call_of(const op::Softmin& op, const Shape& shape) {
  return {SoftmaxKind::plain, softmax_rows(shape, op.axis), -scale_of(op.temperature)};
}
inline SoftmaxCall call_of(const op::LogSoftmax& op, const Shape& shape) {
  return {SoftmaxKind::log, softmax_rows(shape, op.axis), scale_of(op.temperature)};
}
inline SoftmaxCall call_of(const op::BackwardSoftmax& op, const Shape& shape) {
  return {SoftmaxKind::plain, softmax_rows(shape, op.axis), op.scale};
}
inline SoftmaxCall call_of(const op::BackwardLogSoftmax& op, const Shape& shape) {
  return {SoftmaxKind::log, softmax_rows(shape, op.axis), op.scale};
}
inline SoftmaxCall call_of(const op::SoftmaxActivation& op, const Shape& shape) {
  return {SoftmaxKind::plain, softmax_rows(shape, op.mode)};
}
inline SoftmaxCall call_of(const op::BackwardSoftmaxActivation& op, const Shape& shape) {
  return {SoftmaxKind::plain, softmax_rows(shape, op.mode)};
}

}  // namespace kaon::ops
