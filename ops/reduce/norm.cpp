#include "kaon/ops/reduce/reduce.h"

#include <cmath>

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/reduce/kernels/axes.h"
#include "kaon/ops/reduce/kernels/reduce_driver.h"
#include "kaon/ops/reduce/kernels/reduce_grad.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Norm::def = make_op_def<op::Norm>();
constinit const OpDef op::NormGrad::def = make_op_def<op::NormGrad>();

void op::Norm::infer(InferContext& c) const {
  if (ord != 1 && ord != 2) c.fail_value(fmt::format("ord must be 1 or 2, got {}", ord));
  c.expect_floating();
  const DType result = out_dtype.value_or(c.dtype());
  if (!is_floating(result)) c.fail_dtype(fmt::format("out_dtype must be floating, got {}", name_of(result)));
  const uint32_t mask = reduced_axes(axis, false, c.shape(0).ndim(), c.op());
  c.set_output(reduced_shape(c.shape(0), mask, keepdims), result);
}

void op::Norm::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const NDArray& x = g.input(0);
  NDArray head = g.head(), out = g.output();
  if (out.dtype() != x.dtype()) head = head.astype(x.dtype()), out = out.astype(x.dtype());
  g.set(0, nd._backward_norm(head, x, out, {.ord = ord, .axis = axes_of(reduced_axes(axis, false, x.ndim(), "norm"))}));
}

void run_cpu(const op::Norm& op, KernelContext& c) {
  const TensorView& in = c.in(0);
  const ReduceDims dims(in.shape, reduced_axes(op.axis, false, in.shape.ndim(), "norm"));
  dispatch_float("norm", c.out().dtype, [&]<class T>() {
    T* out = c.out().as<T>();
    const bool squares = op.ord == 2;
    reduce_dims(c.run, squares ? Combine::sum_squares : Combine::sum_abs, in.data, in.dtype, dims.span(),
                [&](int64_t first, int64_t n, const void* results) {
                  const double* acc = static_cast<const double*>(results);
                  for (int64_t i = 0; i < n; ++i) {
                    out[first + i] = T(static_cast<accumulate_t<T>>(squares ? std::sqrt(acc[i]) : acc[i]));
                  }
                });
  });
}

void op::NormGrad::infer(InferContext& c) const { infer_reduce_grad(c, axis); }

// y = h x / n: dh = sum(g x) / n, dx = g h / n, dn = -sum(g x) h / n^2; with ord 1, y = h sign(x).
void op::NormGrad::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  const NDArray &head = g.input(0), &data = g.input(1), &out = g.input(2), &up = g.head();
  const op::SumGrad spread{.shape = data.shape(), .axis = axis};
  if (ord == 1) {
    if (g.wants(0)) {
      const NDArray ones = out / out;
      g.set(0, nd._reshape_to(nd.sum(up * nd._backward_norm(ones, data, out, *this), {.axis = axis}),
                              {.shape = head.shape()}));
    }
    return;
  }
  const bool scalar_terms = g.wants(0) || g.wants(2);
  const NDArray inverse = nd.where(out == 0, nd.zeros_like(out), 1 / out);  // as the gradient itself is 0 there
  NDArray dot;
  if (scalar_terms) dot = nd._reshape_to(nd.sum(up * data, {.axis = axis}), {.shape = out.shape()}) * inverse;
  if (g.wants(0)) g.set(0, dot);
  if (g.wants(1)) g.set(1, up * nd._backward_sum(head * inverse, spread));
  if (g.wants(2)) g.set(2, -(dot * head * inverse));
}

void run_cpu(const op::NormGrad& op, KernelContext& c) { run_reduce_grad(op.axis, c, NormGradValue{op.ord}); }

}  // namespace kaon
