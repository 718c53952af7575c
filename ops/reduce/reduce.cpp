#include "kaon/ops/reduce/reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/scratch.h"
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
  const bool is_bool = c.dtype() == DType::boolean;
  if (is_bool && !counts_bool(K)) c.fail_dtype("is not implemented for dtype bool; use cast");
  if (K == ReduceKind::mean && !is_bool) c.expect_floating();
  const uint32_t mask = reduced_axes(axis, exclude, c.shape(0).ndim(), c.op());
  if (K == ReduceKind::max || K == ReduceKind::min) expect_elements(c, mask);
  c.set_output(reduced_shape(c.shape(0), mask, keepdims), !is_bool                ? c.dtype()
                                                          : K == ReduceKind::mean ? DType::float32
                                                                                  : DType::int64);
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

namespace {

// The elements of a bool array as numbers of `dtype`, float32 or int64, in `memory`.
TensorView numbers_of(const TensorView& x, DType dtype, const Scratch& memory, RunContext& run) {
  const uint8_t* const from = x.as<const uint8_t>();
  run.parallel_for(x.size(), 1 << 16, [&](int64_t begin, int64_t end) {
    if (dtype == DType::float32) std::copy(from + begin, from + end, memory.as<float>() + begin);
    else std::copy(from + begin, from + end, memory.as<int64_t>() + begin);
  });
  return {.data = memory.data(), .shape = x.shape, .dtype = dtype};
}

}  // namespace

template <ReduceKind K>
void run_cpu(const op::Reduce<K>& op, KernelContext& c) {
  const bool is_bool = c.in(0).dtype == DType::boolean;
  const DType dtype = c.out().dtype;
  const Scratch memory(is_bool ? size_t(c.in(0).size()) * size_of(dtype) : 0);
  const TensorView in = is_bool ? numbers_of(c.in(0), dtype, memory, c.run) : c.in(0);
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
