#include "kaon/ops/reduce/reduce.h"

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/reduce/kernels/axes.h"
#include "kaon/ops/reduce/kernels/reduce_driver.h"

namespace kaon {

using namespace ops;

template <ReduceKind K>
constinit const OpDef op::Reduce<K>::def = make_op_def<op::Reduce<K>>();

template <ReduceKind K>
bool op::Reduce<K>::keeps_rows(const RowQuery& q) const {
  return (reduced_axes(axis, exclude, q.ndim(), traits.name.data()) & 1) == 0;
}

template <ReduceKind K>
void op::Reduce<K>::infer(InferContext& c) const {
  if (c.dtype() == DType::boolean) c.fail_dtype("is not implemented for dtype bool; use cast");
  if (K == ReduceKind::mean) c.expect_floating();
  const uint32_t mask = reduced_axes(axis, exclude, c.shape(0).ndim(), c.op());
  if (K == ReduceKind::max || K == ReduceKind::min) expect_elements(c, mask);
  c.set_output(reduced_shape(c.shape(0), mask, keepdims), c.dtype());
}

template <ReduceKind K>
void op::Reduce<K>::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape& whole = g.input_like(0).shape();
  const Shape axes = axes_of(reduced_axes(axis, exclude, whole.ndim(), traits.name.data()));
  if constexpr (K == ReduceKind::sum || K == ReduceKind::mean) {
    double scale = 1;
    if (K == ReduceKind::mean) {
      for (int64_t a : axes) scale /= double(whole[int(a)]);
    }
    g.set(0, nd._backward_sum(g.head(), {.shape = whole, .axis = axes, .scale = scale}));
  } else if constexpr (K == ReduceKind::max || K == ReduceKind::min) {
    g.set(0, nd._backward_max(g.head(), g.input(0), g.output(), {.axis = axes}));
  } else if constexpr (K == ReduceKind::nansum) {
    g.set(0, nd._backward_nansum(g.head(), g.input(0), {.axis = axes}));
  } else {
    g.set(0, nd._backward_prod(g.head(), g.input(0), {.axis = axes, .skip_nan = K == ReduceKind::nanprod}));
  }
}

template <ReduceKind K>
void run_cpu(const op::Reduce<K>& op, KernelContext& c) {
  const TensorView& in = c.in(0);
  const ReduceDims dims(in.shape, reduced_axes(op.axis, op.exclude, in.shape.ndim(), op.traits.name.data()));
  const double count = elements_per_result(dims.span());
  dispatch_all(op.traits.name.data(), in.dtype, [&]<class T>() {
    using Acc = wide_t<T>;
    T* out = c.out().as<T>();
    reduce_dims(c.run, combine_of(K), in.data, in.dtype, dims.span(),
                [&](int64_t first, int64_t n, const void* results) {
                  const Acc* acc = static_cast<const Acc*>(results);
                  for (int64_t i = 0; i < n; ++i)
                    out[first + i] = K == ReduceKind::mean ? T(acc[i] / Acc(count)) : T(acc[i]);
                });
  });
}

#define KAON_REDUCE(kind)                       \
  template struct op::Reduce<ReduceKind::kind>; \
  template void run_cpu(const op::Reduce<ReduceKind::kind>&, KernelContext&);
KAON_REDUCE(sum)
KAON_REDUCE(mean)
KAON_REDUCE(prod)
KAON_REDUCE(max)
KAON_REDUCE(min)
KAON_REDUCE(nansum)
KAON_REDUCE(nanprod)
#undef KAON_REDUCE

}  // namespace kaon
