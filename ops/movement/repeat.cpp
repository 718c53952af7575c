#include "kaon/ops/movement/movement.h"

#include <algorithm>

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/movement/kernels/copies.h"
#include "kaon/ops/movement/kernels/reverse_pixels.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/reduce/kernels/axes.h"
#include "kaon/ops/reduce/reduce.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Repeat::def = make_op_def<op::Repeat>();
constinit const OpDef op::Tile::def = make_op_def<op::Tile>();
constinit const OpDef op::Reverse::def = make_op_def<op::Reverse>();

namespace {

// Adds the `n` parts of axis 1 of the array seen as (outer, n, inner).
NDArray add_parts(const NDArray& x, int64_t outer, int64_t n, int64_t inner) {
  return nd.sum(nd._reshape_to(x, {.shape = Shape(outer, n, inner)}), {.axis = 1});
}

}  // namespace

void op::Repeat::infer(InferContext& c) const {
  if (repeats < 0) c.fail_value(fmt::format("repeats must not be negative, got {}", repeats));
  Shape out = axis ? c.shape(0) : Shape(c.shape(0).size());
  int64_t& n = out[axis ? normalize_axis(*axis, out.ndim(), c.op()) : 0];
  if (__builtin_mul_overflow(n, int64_t(repeats), &n)) c.fail_value(fmt::format("repeats {} are too many", repeats));
  c.set_output(out, c.dtype());
}

void op::Repeat::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape& in = g.input_like(0).shape();
  const int first = axis ? normalize_axis(*axis, in.ndim(), "repeat") + 1 : in.ndim();
  const NDArray sum = add_parts(g.head(), in.product(0, first), repeats, in.product(first, in.ndim()));
  g.set(0, nd._reshape_to(sum, {.shape = in}));
}

void run_cpu(const op::Repeat& op, KernelContext& c) { strided_copy(c, copy_of(op, c)); }

void op::Tile::infer(InferContext& c) const {
  const int ndim = std::max(c.shape(0).ndim(), reps.ndim());
  Shape out = padded_left(c.shape(0), ndim);
  const Shape times = padded_left(reps, ndim);
  for (int i = 0; i < ndim; ++i) {
    if (times[i] < 0) c.fail_value(fmt::format("reps must not be negative, got {}", reps.str()));
    if (__builtin_mul_overflow(out[i], times[i], &out[i]))
      c.fail_value(fmt::format("reps {} are too many", reps.str()));
  }
  c.set_output(out, c.dtype());
}

void op::Tile::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape& in = g.input_like(0).shape();
  const int ndim = std::max(in.ndim(), reps.ndim());
  const Shape target = padded_left(in, ndim), times = padded_left(reps, ndim);
  NDArray sum = g.head();
  for (int i = 0; i < ndim; ++i) {  // axes before i have their final size, later ones are still tiled
    if (times[i] == 1) continue;
    int64_t inner = target[i];
    for (int k = i + 1; k < ndim; ++k) inner *= target[k] * times[k];
    sum = add_parts(sum, target.product(0, i), times[i], inner);
  }
  g.set(0, nd._reshape_to(sum, {.shape = in}));
}

void run_cpu(const op::Tile& op, KernelContext& c) { strided_copy(c, copy_of(op, c)); }

void op::Reverse::infer(InferContext& c) const {
  if (axis.empty()) c.fail_value("needs at least one axis");
  reduced_axes(axis, false, c.shape(0).ndim(), c.op());
  c.set_output(c.shape(0), c.dtype());
}

void op::Reverse::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd.reverse(g.head(), axis));
}

void run_cpu(const op::Reverse& op, KernelContext& c) {
  const StridedCopy copy = copy_of(op, c);
  if (!reverse_pixels(c, copy)) strided_copy(c, copy);
}

}  // namespace kaon
