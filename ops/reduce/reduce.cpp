#include "kaon/ops/reduce/reduce.h"

#include <fmt/format.h>

#include "kaon/ops/dispatch.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/reduce/reduce_driver.h"

namespace kaon {

namespace {

constexpr Combine combine_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::prod: return Combine::prod;
    case ReduceKind::max: return Combine::max;
    case ReduceKind::min: return Combine::min;
    case ReduceKind::nansum: return Combine::nan_sum;
    case ReduceKind::nanprod: return Combine::nan_prod;
    default: return Combine::sum;
  }
}

}  // namespace

uint32_t reduced_axes(const Shape& axis, bool exclude, int ndim, const char* op) {
  const uint32_t all = (1u << ndim) - 1;
  if (axis.empty()) return all;
  uint32_t mask = 0;
  for (int64_t a : axis) {
    const uint32_t one = bit(normalize_axis(a, ndim, op));
    if (mask & one) throw ShapeError(fmt::format("[{}] axis {} is named twice in {}", op, a, axis.str()));
    mask |= one;
  }
  return exclude ? all & ~mask : mask;
}

Shape reduced_shape(const Shape& in, uint32_t mask, bool keepdims) {
  Shape out;
  for (int i = 0; i < in.ndim(); ++i) {
    if (!((mask >> i) & 1)) {
      out.push_back(in[i]);
    } else if (keepdims) {
      out.push_back(1);
    }
  }
  if (out.empty()) out.push_back(1);
  return out;
}

Shape axes_of(uint32_t mask) {
  Shape axes;
  for (int i = 0; i < Shape::max_ndim; ++i) {
    if ((mask >> i) & 1) axes.push_back(i);
  }
  return axes;
}

void expect_elements(const InferContext& c, uint32_t mask) {
  int64_t reduced = 1, kept = 1;
  for (int i = 0; i < c.shape(0).ndim(); ++i) ((mask >> i) & 1 ? reduced : kept) *= c.shape(0)[i];
  if (reduced == 0 && kept != 0) {
    c.fail(fmt::format("needs at least one element along the reduced axes, got shape {}", c.shape(0).str()));
  }
}

template <ReduceKind K>
constinit const OpDef Reduce<K>::def = make_op_def<Reduce<K>>();

template <ReduceKind K>
void Reduce<K>::infer(InferContext& c) const {
  if (c.dtype() == DType::boolean) c.fail_dtype("is not implemented for dtype bool; use cast");
  if (K == ReduceKind::mean) c.expect_floating();
  const uint32_t mask = reduced_axes(axis, exclude, c.shape(0).ndim(), c.op());
  if (K == ReduceKind::max || K == ReduceKind::min) expect_elements(c, mask);
  c.set_output(reduced_shape(c.shape(0), mask, keepdims), c.dtype());
}

template <ReduceKind K>
void Reduce<K>::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const NDArray& x = g.input(0);
  const Shape axes = axes_of(reduced_axes(axis, exclude, x.ndim(), traits.name.data()));
  if constexpr (K == ReduceKind::sum || K == ReduceKind::mean) {
    double scale = 1;
    if (K == ReduceKind::mean) {
      for (int64_t a : axes) scale /= double(x.shape()[int(a)]);
    }
    g.set(0, nd._backward_sum(g.head(), {.shape = x.shape(), .axis = axes, .scale = scale}));
  } else if constexpr (K == ReduceKind::max || K == ReduceKind::min) {
    g.set(0, nd._backward_max(g.head(), x, g.output(), {.axis = axes}));
  } else if constexpr (K == ReduceKind::nansum) {
    g.set(0, nd._backward_nansum(g.head(), x, {.axis = axes}));
  } else {
    g.set(0, nd._backward_prod(g.head(), x, {.axis = axes, .skip_nan = K == ReduceKind::nanprod}));
  }
}

template <ReduceKind K>
void run_cpu(const Reduce<K>& op, KernelContext& c) {
  const TensorView& in = c.in(0);
  const ReduceDims dims(in.shape, reduced_axes(op.axis, op.exclude, in.shape.ndim(), op.traits.name.data()));
  double count = 1;
  for (const ReduceDim& d : dims.span()) count *= d.reduced ? double(d.size) : 1;
  dispatch_all(op.traits.name.data(), in.dtype, [&]<class T>() {
    using Acc = std::conditional_t<is_floating(dtype_of<T>), accumulate_t<T>, int64_t>;
    T* out = c.out().as<T>();
    reduce_dims(c.run, combine_of(K), in.data, in.dtype, dims.span(),
                [&](int64_t first, int64_t n, const void* results) {
                  const Acc* acc = static_cast<const Acc*>(results);
                  for (int64_t i = 0; i < n; ++i)
                    out[first + i] = K == ReduceKind::mean ? T(acc[i] / Acc(count)) : T(acc[i]);
                });
  });
}

#define KAON_REDUCE(kind)                    \
  template struct Reduce<ReduceKind::kind>; \
  template void run_cpu(const Reduce<ReduceKind::kind>&, KernelContext&);
KAON_REDUCE(sum)
KAON_REDUCE(mean)
KAON_REDUCE(prod)
KAON_REDUCE(max)
KAON_REDUCE(min)
KAON_REDUCE(nansum)
KAON_REDUCE(nanprod)
#undef KAON_REDUCE

}  // namespace kaon
