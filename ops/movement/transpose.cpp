#include "kaon/ops/movement/transpose.h"

#include <utility>

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/movement/strided_copy.h"
#include "kaon/ops/op_def.h"

namespace kaon {

constinit const OpDef Transpose::def = make_op_def<Transpose>();
constinit const OpDef SwapAxis::def = make_op_def<SwapAxis>();

namespace {

// The permutation with all axes counted from the front.
Shape full_axes(const Shape& axes, int ndim) {
  Shape full = Shape::filled(ndim, 0);
  for (int i = 0; i < ndim; ++i) full[i] = axes.empty() ? ndim - 1 - i : axes[i] < 0 ? axes[i] + ndim : axes[i];
  return full;
}

Shape swapped(int ndim, int dim1, int dim2, const char* op) {
  Shape axes = Shape::filled(ndim, 0);
  for (int i = 0; i < ndim; ++i) axes[i] = i;
  std::swap(axes[normalize_axis(dim1, ndim, op)], axes[normalize_axis(dim2, ndim, op)]);
  return axes;
}

void permute(KernelContext& c, const Shape& axes) {
  const Shape in = strides_of(c.in(0).shape), out = strides_of(c.out().shape);
  CopyDims dims;
  for (int i = 0; i < axes.ndim(); ++i) dims.push(c.out().shape[i], in[int(axes[i])], out[i]);
  strided_copy(c.run, dims.span(), c.in(0).data, c.out().data, size_of(c.in(0).dtype));
}

void set_permuted(InferContext& c, const Shape& axes) {
  Shape out = axes;
  for (int i = 0; i < axes.ndim(); ++i) out[i] = c.shape(0)[int(axes[i])];
  c.set_output(out, c.dtype());
}

}  // namespace

void Transpose::infer(InferContext& c) const {
  const int ndim = c.shape(0).ndim();
  if (!axes.empty() && axes.ndim() != ndim) {
    c.fail(fmt::format("axes {} must name each axis of {} once", axes.str(), c.shape(0).str()));
  }
  const Shape full = full_axes(axes, ndim);
  uint32_t seen = 0;
  for (int64_t a : full) {
    if (a < 0 || a >= ndim || (seen & bit(int(a)))) {
      c.fail(fmt::format("axes {} must name each axis of {} once", axes.str(), c.shape(0).str()));
    }
    seen |= bit(int(a));
  }
  set_permuted(c, full);
}

void Transpose::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape full = full_axes(axes, g.input(0).ndim());
  Shape inverse = full;
  for (int i = 0; i < full.ndim(); ++i) inverse[int(full[i])] = i;
  g.set(0, nd.transpose(g.head(), inverse));
}

void run_cpu(const Transpose& op, KernelContext& c) { permute(c, full_axes(op.axes, c.in(0).shape.ndim())); }

void SwapAxis::infer(InferContext& c) const { set_permuted(c, swapped(c.shape(0).ndim(), dim1, dim2, c.op())); }

void SwapAxis::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd.swapaxes(g.head(), dim1, dim2));
}

void run_cpu(const SwapAxis& op, KernelContext& c) {
  permute(c, swapped(c.in(0).shape.ndim(), op.dim1, op.dim2, "SwapAxis"));
}

}  // namespace kaon
