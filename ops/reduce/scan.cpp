// Sums up to each element.
#include <fmt/format.h>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/reduce/kernels/scan_lines.h"
#include "kaon/ops/reduce/reduce.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Scan::def = make_op_def<op::Scan>();
constinit const OpDef op::CumSum::def = make_op_def<op::CumSum>();

void op::Scan::infer(InferContext& c) const {
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
  normalize_axis(axis, c.shape(0).ndim(), c.op());
  c.set_output(c.shape(0), c.dtype());
}

void op::Scan::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd._scan(g.head(), {.axis = axis, .reverse = !reverse}));
}

void run_cpu(const op::Scan& op, KernelContext& c) {
  const Shape& shape = c.in(0).shape;
  if (shape.size() == 0) return;
  const ScanPieces pieces(shape, normalize_axis(op.axis, shape.ndim(), "_scan"), op.reverse);
  dispatch_signed("_scan", c.out().dtype, [&]<class T>() {
    using Sum = sum_t<T>;
    scan_lines<T>(c, pieces, Sum(0), [](Sum a, Sum b) { return Sum(a + b); });
  });
}

// --- cumsum

void op::CumSum::infer(InferContext& c) const {
  const Shape& a = c.shape(0);
  const DType own = c.dtype() == DType::boolean ? DType::int64 : c.dtype(), sums = dtype.value_or(own);
  if (sums == DType::boolean) c.fail_dtype("dtype must be one of numbers, got bool");
  if (axis) normalize_axis(*axis, a.ndim(), c.op());
  c.set_output(axis ? a : Shape(a.size()), sums);
}

void op::CumSum::compose(ComposeContext& c) const {
  const auto& [shape, dtype] = c.output();
  NDArray x = in_dtype(c.input(), dtype);
  if (!axis) x = shaped(x, shape);
  c.set(nd._scan(x, {.axis = axis.value_or(0)}));
}

}  // namespace kaon
