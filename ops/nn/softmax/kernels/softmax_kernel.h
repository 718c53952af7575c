// Softmax over rows, for softmax, SoftmaxActivation, SoftmaxOutput and their gradients.
#pragma once

#include "kaon/ops/view.h"

namespace kaon::ops {

// An array seen as (outer, n, inner), the softmax running over n.
struct RowView {
  int64_t outer = 1, n = 1, inner = 1;
};
inline RowView rows_along(const Shape& shape, int axis) {  // axis counted from the front
  return {shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.ndim())};
}

enum class SoftmaxKind : uint8_t { plain, log };

// out = softmax or log_softmax of scale * in. `length` (any dtype; nullptr: all of n) holds one count per row, (outer,
// inner) of them. The output may have another floating dtype than the input.
void softmax_forward(SoftmaxKind kind, const RowView& rows, double scale, const TensorView& in,
                     const TensorView* length, const TensorView& out, RunContext& run);

// The gradient of the above from the head and the output, all of one dtype.
void softmax_backward(SoftmaxKind kind, const RowView& rows, double scale, const TensorView& head,
                      const TensorView& output, const TensorView& grad, RunContext& run);

}  // namespace kaon::ops

namespace kaon {

namespace cuda {

// The same on the stream of c.
void softmax_forward(ops::SoftmaxKind kind, const ops::RowView& rows, double scale, const TensorView& in,
                     const TensorView* length, const TensorView& out, KernelContext& c);
void softmax_backward(ops::SoftmaxKind kind, const ops::RowView& rows, double scale, const TensorView& head,
                      const TensorView& output, const TensorView& grad, KernelContext& c);

// Numbers of any dtype truncated, NaN becoming `of_nan`; in workspace.
const int64_t* whole_numbers(const TensorView& from, int64_t of_nan, KernelContext& c);

}  // namespace cuda

}  // namespace kaon
