#include "kaon/ops/movement/movement.h"

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/movement/kernels/copies.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Transpose::def = make_op_def<op::Transpose>();
constinit const OpDef op::SwapAxis::def = make_op_def<op::SwapAxis>();

namespace {

void set_permuted(InferContext& c, const Shape& axes) {
  Shape out = axes;
  for (int i = 0; i < axes.ndim(); ++i) out[i] = c.shape(0)[int(axes[i])];
  c.set_output(out, c.dtype());
}

}  // namespace

void op::Transpose::infer(InferContext& c) const {
  const int ndim = c.shape(0).ndim();
  if (!axes.empty() && axes.ndim() != ndim) {
    c.fail(fmt::format("axes {} must name each axis of {} once", axes.str(), c.shape(0).str()));
  }
  const Shape full = permutation_of(*this, ndim);
  uint32_t seen = 0;
  for (int64_t a : full) {
    if (a < 0 || a >= ndim || (seen & bit(int(a)))) {
      c.fail(fmt::format("axes {} must name each axis of {} once", axes.str(), c.shape(0).str()));
    }
    seen |= bit(int(a));
  }
  set_permuted(c, full);
}

void op::Transpose::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape full = permutation_of(*this, g.input_like(0).ndim());
  Shape inverse = full;
  for (int i = 0; i < full.ndim(); ++i) inverse[int(full[i])] = i;
  g.set(0, nd.transpose(g.head(), inverse));
}

void run_cpu(const op::Transpose& op, KernelContext& c) { strided_copy(c, copy_of(op, c)); }

void op::SwapAxis::infer(InferContext& c) const { set_permuted(c, permutation_of(*this, c.shape(0).ndim())); }

void op::SwapAxis::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd.swapaxes(g.head(), dim1, dim2));
}

void run_cpu(const op::SwapAxis& op, KernelContext& c) { strided_copy(c, copy_of(op, c)); }

}  // namespace kaon
