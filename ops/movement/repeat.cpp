#include "kaon/ops/movement/repeat.h"

#include <algorithm>

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/movement/strided_copy.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/reduce/reduce.h"

namespace kaon {

constinit const OpDef Repeat::def = make_op_def<Repeat>();
constinit const OpDef Tile::def = make_op_def<Tile>();
constinit const OpDef Reverse::def = make_op_def<Reverse>();

namespace {

Shape padded(const Shape& shape, int ndim) {
  Shape out = Shape::filled(ndim - shape.ndim(), 1);
  for (int64_t d : shape) out.push_back(d);
  return out;
}

// Adds the `n` parts of axis 1 of the array seen as (outer, n, inner).
NDArray add_parts(const NDArray& x, int64_t outer, int64_t n, int64_t inner) {
  return nd.sum(nd._reshape_to(x, {.shape = Shape(outer, n, inner)}), {.axis = 1});
}

}  // namespace

void Repeat::infer(InferContext& c) const {
  if (repeats < 0) c.fail_value(fmt::format("repeats must not be negative, got {}", repeats));
  Shape out = axis ? c.shape(0) : Shape(c.shape(0).size());
  int64_t& n = out[axis ? normalize_axis(*axis, out.ndim(), c.op()) : 0];
  if (__builtin_mul_overflow(n, int64_t(repeats), &n)) c.fail_value(fmt::format("repeats {} are too many", repeats));
  c.set_output(out, c.dtype());
}

void Repeat::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape& in = g.input(0).shape();
  const int first = axis ? normalize_axis(*axis, in.ndim(), "repeat") + 1 : in.ndim();
  const NDArray sum = add_parts(g.head(), in.product(0, first), repeats, in.product(first, in.ndim()));
  g.set(0, nd._reshape_to(sum, {.shape = in}));
}

void run_cpu(const Repeat& op, KernelContext& c) {
  const Shape& in = c.in(0).shape;
  const int first = op.axis ? normalize_axis(*op.axis, in.ndim(), "repeat") + 1 : in.ndim();
  const int64_t outer = in.product(0, first), inner = in.product(first, in.ndim());
  CopyDims dims;
  dims.push(outer, inner, inner * op.repeats);
  dims.push(op.repeats, 0, inner);
  dims.push(inner, 1, 1);
  strided_copy(c.run, dims.span(), c.in(0).data, c.out().data, size_of(c.in(0).dtype));
}

void Tile::infer(InferContext& c) const {
  const int ndim = std::max(c.shape(0).ndim(), reps.ndim());
  Shape out = padded(c.shape(0), ndim);
  const Shape times = padded(reps, ndim);
  for (int i = 0; i < ndim; ++i) {
    if (times[i] < 0) c.fail_value(fmt::format("reps must not be negative, got {}", reps.str()));
    if (__builtin_mul_overflow(out[i], times[i], &out[i]))
      c.fail_value(fmt::format("reps {} are too many", reps.str()));
  }
  c.set_output(out, c.dtype());
}

void Tile::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape& in = g.input(0).shape();
  const int ndim = std::max(in.ndim(), reps.ndim());
  const Shape target = padded(in, ndim), times = padded(reps, ndim);
  NDArray sum = g.head();
  for (int i = 0; i < ndim; ++i) {  // axes before i have their final size, those behind it are still tiled
    if (times[i] == 1) continue;
    int64_t inner = target[i];
    for (int k = i + 1; k < ndim; ++k) inner *= target[k] * times[k];
    sum = add_parts(sum, target.product(0, i), times[i], inner);
  }
  g.set(0, nd._reshape_to(sum, {.shape = in}));
}

void run_cpu(const Tile& op, KernelContext& c) {
  const int ndim = c.out().shape.ndim();
  const Shape in = padded(c.in(0).shape, ndim), times = padded(op.reps, ndim);
  const Shape src = strides_of(in), dst = strides_of(c.out().shape);
  CopyDims dims;
  for (int i = 0; i < ndim; ++i) {
    dims.push(times[i], 0, dst[i] * in[i]);
    dims.push(in[i], src[i], dst[i]);
  }
  strided_copy(c.run, dims.span(), c.in(0).data, c.out().data, size_of(c.in(0).dtype));
}

void Reverse::infer(InferContext& c) const {
  if (axis.empty()) c.fail_value("needs at least one axis");
  reduced_axes(axis, false, c.shape(0).ndim(), c.op());
  c.set_output(c.shape(0), c.dtype());
}

void Reverse::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd.reverse(g.head(), axis));
}

void run_cpu(const Reverse& op, KernelContext& c) {
  const TensorView& in = c.in(0);
  if (in.size() == 0) return;
  const uint32_t mask = reduced_axes(op.axis, false, in.shape.ndim(), "reverse");
  const Shape strides = strides_of(in.shape);
  CopyDims dims;
  int64_t first = 0;
  for (int i = 0; i < in.shape.ndim(); ++i) {
    const bool flipped = (mask >> i) & 1;
    if (flipped) first += (in.shape[i] - 1) * strides[i];
    dims.push(in.shape[i], flipped ? -strides[i] : strides[i], strides[i]);
  }
  const size_t width = size_of(in.dtype);
  strided_copy(c.run, dims.span(), in.as<char>() + first * int64_t(width), c.out().data, width);
}

}  // namespace kaon
