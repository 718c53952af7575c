#include "kaon/ops/movement/kernels/copies.h"

#include <utility>

#include "kaon/ops/movement/kernels/slice_range.h"
#include "kaon/ops/movement/movement.h"

namespace kaon::ops {

namespace {

StridedCopy permute(const KernelContext& c, const Shape& axes) {
  const Shape in = strides_of(c.in(0).shape), out = strides_of(c.out().shape);
  StridedCopy copy;
  for (int i = 0; i < axes.ndim(); ++i) copy.dims.push(c.out().shape[i], in[int(axes[i])], out[i]);
  return copy;
}

StridedCopy broadcast(const KernelContext& c) {
  const Shape &in = c.in(0).shape, &out = c.out().shape;
  const Shape src = strides_of(in), dst = strides_of(out);
  StridedCopy copy;
  for (int i = 0; i < out.ndim(); ++i) {
    const int k = i - (out.ndim() - in.ndim());
    copy.dims.push(out[i], k < 0 || in[k] == 1 ? 0 : src[k], dst[i]);
  }
  return copy;
}

}  // namespace

Shape padded_left(const Shape& shape, int ndim) {
  Shape out = Shape::filled(ndim - shape.ndim(), 1);
  for (int64_t d : shape) out.push_back(d);
  return out;
}

Shape permutation_of(const op::Transpose& op, int ndim) {
  Shape full = Shape::filled(ndim, 0);
  for (int i = 0; i < ndim; ++i) {
    full[i] = op.axes.empty() ? ndim - 1 - i : op.axes[i] < 0 ? op.axes[i] + ndim : op.axes[i];
  }
  return full;
}

Shape permutation_of(const op::SwapAxis& op, int ndim) {
  Shape axes = Shape::filled(ndim, 0);
  for (int i = 0; i < ndim; ++i) axes[i] = i;
  std::swap(axes[normalize_axis(op.dim1, ndim, "SwapAxis")], axes[normalize_axis(op.dim2, ndim, "SwapAxis")]);
  return axes;
}

StridedCopy copy_of(const op::Transpose& op, const KernelContext& c) {
  return permute(c, permutation_of(op, c.in(0).shape.ndim()));
}
StridedCopy copy_of(const op::SwapAxis& op, const KernelContext& c) {
  return permute(c, permutation_of(op, c.in(0).shape.ndim()));
}

StridedCopy copy_of(const op::Slice& op, const KernelContext& c) {
  const Shape& in = c.in(0).shape;
  return from_region(in, resolve_slice(in, op.begin, op.end, op.step, "slice"));
}
StridedCopy copy_of(const op::SliceAxis& op, const KernelContext& c) {
  const Shape& in = c.in(0).shape;
  return from_region(in, resolve_axis(in, op.axis, op.begin, op.end, "slice_axis"));
}
StridedCopy copy_of(const op::SliceLike&, const KernelContext& c) {
  SliceRange range = whole_range(c.in(0).shape);
  range.count = c.out().shape;
  return from_region(c.in(0).shape, range);
}
StridedCopy copy_of(const op::SliceGrad& op, const KernelContext& c) {
  return to_region(c.out().shape, {op.begin, op.step, c.in(0).shape});
}
StridedCopy copy_of(const op::SliceAssign& op, const KernelContext& c) {
  const Shape& out = c.out().shape;
  return to_region(out, resolve_slice(out, op.begin, op.end, op.step, "_slice_assign"));
}
StridedCopy copy_of(const op::SliceAssignScalar& op, const KernelContext& c) {
  const Shape& out = c.out().shape;
  return fill_region(out, resolve_slice(out, op.begin, op.end, op.step, "_slice_assign_scalar"));
}

StridedCopy copy_of(const op::BroadcastTo&, const KernelContext& c) { return broadcast(c); }
StridedCopy copy_of(const op::BroadcastAxis&, const KernelContext& c) { return broadcast(c); }
StridedCopy copy_of(const op::BroadcastLike&, const KernelContext& c) { return broadcast(c); }

StridedCopy copy_of(const op::Repeat& op, const KernelContext& c) {
  const Shape& in = c.in(0).shape;
  const int first = op.axis ? normalize_axis(*op.axis, in.ndim(), "repeat") + 1 : in.ndim();
  const int64_t outer = in.product(0, first), inner = in.product(first, in.ndim());
  StridedCopy copy;
  copy.dims.push(outer, inner, inner * op.repeats);
  copy.dims.push(op.repeats, 0, inner);
  copy.dims.push(inner, 1, 1);
  return copy;
}

StridedCopy copy_of(const op::Tile& op, const KernelContext& c) {
  const int ndim = c.out().shape.ndim();
  const Shape in = padded_left(c.in(0).shape, ndim), times = padded_left(op.reps, ndim);
  const Shape src = strides_of(in), dst = strides_of(c.out().shape);
  StridedCopy copy;
  for (int i = 0; i < ndim; ++i) {
    copy.dims.push(times[i], 0, dst[i] * in[i]);
    copy.dims.push(in[i], src[i], dst[i]);
  }
  return copy;
}

StridedCopy copy_of(const op::Reverse& op, const KernelContext& c) {
  const Shape& in = c.in(0).shape;
  const Shape strides = strides_of(in);
  StridedCopy copy;
  for (int i = 0; i < in.ndim(); ++i) copy.dims.push(in[i], strides[i], strides[i]);
  for (int64_t axis : op.axis) {
    const int i = normalize_axis(axis, in.ndim(), "reverse");
    copy.src += (in[i] - 1) * strides[i];
    copy.dims[i].src = -strides[i];
  }
  return copy;
}

}  // namespace kaon::ops
