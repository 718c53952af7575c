#include "kaon/ops/movement/movement.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/movement/kernels/copies.h"
#include "kaon/ops/movement/kernels/pad_axis.h"
#include "kaon/ops/movement/kernels/slice_range.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Pad::def = make_op_def<op::Pad>();
constinit const OpDef op::PadGrad::def = make_op_def<op::PadGrad>();

namespace {

const int64_t* source_positions(KernelContext& c, const PadAxis& axis) {
  const int64_t padded = axis.padded();
  int64_t* positions = static_cast<int64_t*>(c.run.workspace(size_t(std::max<int64_t>(1, padded)) * sizeof(int64_t)));
  for (int64_t i = 0; i < padded; ++i) positions[i] = axis.source(i);
  return positions;
}

// Pads one axis at a time from `in` to `out`; intermediate arrays are in workspace. `step` copies an array of shape
// `from` along axis `a`.
template <class Step>
void axis_by_axis(KernelContext& c, const Shape& pad_width, int sign, Step step) {
  const TensorView &in = c.in(0), &out = c.out();
  const int ndim = in.shape.ndim();
  int last = -1;
  for (int a = 0; a < ndim; ++a) {
    if (pad_width[2 * a] || pad_width[2 * a + 1]) last = a;
  }
  if (last < 0) return copy_bytes(c.run, in.data, out.data, out.bytes());
  Shape shape = in.shape;
  const void* from = in.data;
  for (int a = 0; a <= last; ++a) {
    if (!pad_width[2 * a] && !pad_width[2 * a + 1]) continue;
    Shape next = shape;
    next[a] += sign * (pad_width[2 * a] + pad_width[2 * a + 1]);
    void* to = a == last ? out.data : c.run.workspace(size_t(std::max<int64_t>(1, next.size())) * size_of(in.dtype));
    step(a, shape, next, from, to);
    shape = next, from = to;
  }
}

}  // namespace

void op::Pad::infer(InferContext& c) const {
  Shape out = c.shape(0);
  if (pad_width.ndim() != 2 * out.ndim()) {
    c.fail(fmt::format("pad_width must have two entries per axis of {}, got {}", out.str(), pad_width.str()));
  }
  for (int i = 0; i < out.ndim(); ++i) {
    const int64_t n = out[i], before = pad_width[2 * i], after = pad_width[2 * i + 1];
    if (before < 0 || after < 0) c.fail_value(fmt::format("pad_width must not be negative, got {}", pad_width.str()));
    const bool padded = before > 0 || after > 0;
    if (mode == PadMode::edge && padded && n == 0) c.fail(fmt::format("axis {} of {} has no edge", i, out.str()));
    if (mode == PadMode::reflect && padded && std::max(before, after) >= n) {
      c.fail(fmt::format("reflecting axis {} of {} takes pads less than {}, got {}", i, out.str(), n, pad_width.str()));
    }
    if (__builtin_add_overflow(out[i], before, &out[i]) || __builtin_add_overflow(out[i], after, &out[i])) {
      c.fail_value(fmt::format("pad_width {} is too large", pad_width.str()));
    }
  }
  expect_holds(c, "constant_value", constant_value, c.dtype());
  c.set_output(out, c.dtype());
}

void op::Pad::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  if (mode != PadMode::constant) {
    g.set(0, nd._backward_pad(g.head(), {.mode = mode, .pad_width = pad_width}));
    return;
  }
  Shape begin, end;
  for (int i = 0; i < g.input_like(0).ndim(); ++i) {
    begin.push_back(pad_width[2 * i]);
    end.push_back(pad_width[2 * i] + g.input_like(0).shape()[i]);
  }
  g.set(0, nd.slice(g.head(), begin, end));
}

void run_cpu(const op::Pad& op, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  if (out.size() == 0) return;
  if (op.mode == PadMode::constant) {
    Shape begin, step = Shape::filled(in.shape.ndim(), 1);
    for (int i = 0; i < in.shape.ndim(); ++i) begin.push_back(op.pad_width[2 * i]);
    const uint64_t constant = element_bits(op.constant_value, in.dtype);
    dispatch_width(in.dtype, [&]<class T>() {
      const T value = T(constant);
      T* data = out.as<T>();
      c.run.parallel_for(out.size(), 1 << 16, [&](int64_t i, int64_t end) { std::fill(data + i, data + end, value); });
    });
    strided_copy(c, to_region(out.shape, {begin, step, in.shape}));
    return;
  }
  axis_by_axis(c, op.pad_width, 1, [&](int a, const Shape& from, const Shape& to, const void* src, void* dst) {
    const int64_t* positions = source_positions(c, pad_axis(op.pad_width, a, from[a], op.mode));
    gather_rows(c, positions, to[a], from[a], from.product(0, a), from.product(a + 1, from.ndim()), src, dst,
                size_of(in.dtype));
  });
}

void op::PadGrad::infer(InferContext& c) const {
  if (mode == PadMode::constant) c.fail_value("mode must be edge or reflect");
  c.expect_floating();
  Shape out = c.shape(0);
  if (pad_width.ndim() != 2 * out.ndim()) c.fail("pad_width must have two entries per axis");
  for (int i = 0; i < out.ndim(); ++i) {
    const int64_t before = pad_width[2 * i], after = pad_width[2 * i + 1], n = out[i] - before - after;
    const bool fits = before >= 0 && after >= 0 && n >= 0 &&
                      (before + after == 0 || (mode == PadMode::edge ? n > 0 : std::max(before, after) < n));
    if (!fits) c.fail(fmt::format("pad_width {} does not fit head {}", pad_width.str(), c.shape(0).str()));
    out[i] = n;
  }
  c.set_output(out, c.dtype());
}

void op::PadGrad::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd.pad(g.head(), {.mode = mode, .pad_width = pad_width}));
}

void run_cpu(const op::PadGrad& op, KernelContext& c) {
  axis_by_axis(c, op.pad_width, -1, [&](int a, const Shape& from, const Shape& to, const void* src, void* dst) {
    const int64_t* positions = source_positions(c, pad_axis(op.pad_width, a, to[a], op.mode));
    scatter_add(c, positions, from[a], to[a], to.product(0, a), to.product(a + 1, to.ndim()), src, dst, c.out().dtype);
  });
}

}  // namespace kaon
