#include "kaon/ops/compose/conform.h"
#include "kaon/ops/nn/norm/norm.h"

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/nn/norm/kernels/norm_gradient.h"
#include "kaon/ops/nn/norm/kernels/norm_kernels.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// The axis as the columns of a matrix. When other axes follow it, the data is copied with the axis last.
struct Rows {
  int64_t outer, columns, inner;
  Rows(const Shape& s, int axis) {
    const int at = normalize_axis(axis, s.ndim(), "LayerNorm");
    outer = s.product(0, at), columns = s[at], inner = s.product(at + 1, s.ndim());
  }
  int64_t count() const { return outer * inner; }

  template <class T>
  const T* gather(RunContext& run, const T* x) const {
    if (inner == 1) return x;
    T* copy = static_cast<T*>(run.workspace(size_t(count() * columns) * sizeof(T)));
    swap_axes(run, x, copy, columns, inner);
    return copy;
  }
  template <class T>
  T* target(RunContext& run, T* out) const {
    return inner == 1 || !out ? out : static_cast<T*>(run.workspace(size_t(count() * columns) * sizeof(T)));
  }
  template <class T>
  void scatter(RunContext& run, const T* rows, T* out) const {
    if (inner != 1 && out) swap_axes(run, rows, out, inner, columns);
  }

 private:
  // (outer, a, b) to (outer, b, a)
  template <class T>
  void swap_axes(RunContext& run, const T* from, T* to, int64_t a, int64_t b) const {
    run.parallel_for(outer, std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, a * b)),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t n = begin; n < end; ++n) {
                         for (int64_t i = 0; i < b; ++i) {
                           for (int64_t j = 0; j < a; ++j) to[(n * b + i) * a + j] = from[(n * a + j) * b + i];
                         }
                       }
                     });
  }
};

// Whether gamma and beta have a number for each row: data's shape with 1 at the axis. Else they are along the axis.
bool is_per_row(const Shape& gamma, const Shape& data) { return data.ndim() > 1 && gamma.ndim() == data.ndim(); }

Shape affine_shape(const Shape& gamma, const Shape& data, int at) {
  if (!is_per_row(gamma, data)) return Shape(data[at]);
  Shape s = data;
  s[at] = 1;
  return s;
}

Shape statistics_shape(const Shape& data, int axis) {
  Shape s;
  for (int i = 0; i < data.ndim(); ++i) {
    if (i != axis) s.push_back(data[i]);
  }
  if (s.ndim() == 0) s.push_back(1);
  return s;
}

// The statistics of 16-bit data keep their precision.
DType statistics_dtype(DType data) { return is_half(data) ? DType::float32 : data; }

// The normalisation as arrays, in the precision of the statistics.
NormBackward terms(int axis, const NDArray& head, const NDArray& data, const NDArray& gamma, const NDArray& mean,
                   const NDArray& std) {
  const int at = normalize_axis(axis, data.ndim(), "LayerNorm");
  const bool per_row = is_per_row(gamma.shape(), data.shape());
  Shape statistics = data.shape(), affine = per_row ? data.shape() : Shape::filled(data.ndim(), 1);
  statistics[at] = 1, affine[at] = per_row ? 1 : data.shape()[at];
  const DType dtype = mean.dtype();
  NormBackward f;
  f.head = in_dtype(head, dtype), f.x = in_dtype(data, dtype);
  f.gamma = nd._reshape_to(in_dtype(gamma, dtype), {.shape = affine});
  f.mean = nd._reshape_to(mean, {.shape = statistics}), f.scale = 1 / nd._reshape_to(std, {.shape = statistics});
  f.statistics_axes = Shape(at), f.affine_axes = per_row ? Shape(at) : axes_but(data.ndim(), at);
  return f;
}

template <class T>
void forward(const op::LayerNorm& op, KernelContext& c) {
  const Rows r(c.in(0).shape, op.axis);
  const auto statistics = [&](int i) {
    return static_cast<T*>(c.out(i).data ? c.out(i).data : c.run.workspace(size_t(r.count()) * sizeof(T)));
  };
  const T* const x = r.gather(c.run, c.in(0).as<T>());
  T* const y = r.target(c.run, c.out(0).as<T>());
  const RowAffine<T> affine{c.in(1).as<T>(), c.in(2).as<T>(), is_per_row(c.in(1).shape, c.in(0).shape)};
  normalize_rows(c.run, r.count(), r.columns, x, affine, op.eps, y, statistics(1), statistics(2));
  r.scatter(c.run, y, c.out(0).as<T>());
}

template <class T>
void backward(const op::BackwardLayerNorm& op, KernelContext& c) {
  const Rows r(c.in(1).shape, op.axis);
  const T* const head = r.gather(c.run, c.in(0).as<T>());
  const T* const x = r.gather(c.run, c.in(1).as<T>());
  T* const dx = r.target(c.run, c.out(0).as<T>());
  const RowAffine<T> affine{c.in(2).as<T>(), nullptr, is_per_row(c.in(2).shape, c.in(1).shape)};
  normalize_rows_backward(c.run, r.count(), r.columns, head, x, affine, c.in(3).as<T>(), c.in(4).as<T>(), dx,
                          c.out(1).as<T>(), c.out(2).as<T>());
  r.scatter(c.run, dx, c.out(0).as<T>());
}

}  // namespace

constinit const OpDef op::LayerNorm::def = make_op_def<op::LayerNorm>();
constinit const OpDef op::BackwardLayerNorm::def = make_op_def<op::BackwardLayerNorm>();

void op::LayerNorm::infer(InferContext& c) const {
  if (!(eps >= 0)) c.fail_value(fmt::format("eps must not be negative, got {}", eps));
  c.expect_ndim_at_least(0, 1);
  c.expect_same_dtype();
  c.expect_floating();
  const Shape data = c.shape(0);
  const int at = normalize_axis(axis, data.ndim(), "LayerNorm");
  const Shape affine = affine_shape(c.shape(1), data, at);
  c.expect_shape(1, affine);
  c.expect_shape(2, affine);
  c.set_output(0, data, c.dtype());
  const DType wide = statistics_dtype(c.dtype());
  Shape statistics = statistics_shape(data, at);
  if (output_mean_var) statistics = data, statistics[at] = 1;
  for (int i : {1, 2}) c.set_output(i, statistics, wide);
}

// At mean and std something arrives where the gradient of the gradient is taken, or where they are outputs.
void op::LayerNorm::grad(GradContext& g) const {
  if (!(g.wants(0) || g.wants(1) || g.wants(2))) return;
  NDArray dx;
  if (g.has_head(0)) {
    const auto statistics = [&](int i) {
      const Shape& data = g.input_like(0).shape();
      return output_mean_var
                 ? nd._reshape_to(g.output(i),
                                  {.shape = statistics_shape(data, normalize_axis(axis, data.ndim(), "LayerNorm"))})
                 : g.output(i);
    };
    const std::vector<NDArray> d =
        nd._backward_LayerNorm(g.head(), g.input(0), g.input(1), statistics(1), statistics(2), {.axis = axis});
    dx = d[0];
    for (int i = 1; i < 3; ++i) {
      if (g.wants(i)) g.set(i, d[size_t(i)]);
    }
  }
  if (g.wants(0) && (g.has_head(1) || g.has_head(2))) {
    const NormBackward f = terms(axis, g.input(0), g.input(0), g.input(1), g.output(1), g.output(2));
    const auto arrived = [&](int i) {
      return g.has_head(i) ? nd._reshape_to(g.head(i), {.shape = f.mean.shape()}) : NDArray();
    };
    const NDArray d_scale = g.has_head(2) ? -arrived(2) / nd.square(f.scale) : NDArray();
    const NDArray more = in_dtype(through_statistics(f, arrived(1), d_scale), g.input_like(0).dtype());
    dx = dx.defined() ? dx + more : more;
  }
  if (g.wants(0) && dx.defined()) g.set(0, dx);
}

void run_cpu(const op::LayerNorm& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) { forward<T>(op, c); });
}

void op::BackwardLayerNorm::infer(InferContext& c) const {
  c.expect_ndim_at_least(1, 1);
  c.expect_floating(1);
  if (c.dtype(0) != c.dtype(1) || c.dtype(2) != c.dtype(1)) c.fail_dtype("head, data and gamma must have one dtype");
  for (int i = 3; i < 5; ++i) {
    if (c.dtype(i) != statistics_dtype(c.dtype(1))) {
      c.fail_dtype(fmt::format("mean and std of {} data must have dtype {}, got {}", name_of(c.dtype(1)),
                               name_of(statistics_dtype(c.dtype(1))), name_of(c.dtype(i))));
    }
  }
  const Shape data = c.shape(1);
  const int at = normalize_axis(axis, data.ndim(), "LayerNorm");
  c.expect_shape(0, data);
  const Shape affine = affine_shape(c.shape(2), data, at);
  c.expect_shape(2, affine);
  c.expect_shape(3, statistics_shape(data, at));
  c.expect_shape(4, statistics_shape(data, at));
  c.set_output(0, data, c.dtype(1));
  c.set_output(1, affine, c.dtype(2));
  c.set_output(2, affine, c.dtype(2));
}

void op::BackwardLayerNorm::grad(GradContext& g) const {
  const NormBackward f = terms(axis, g.input(0), g.input(1), g.input(2), g.input(3), g.input(4));
  const DType dtype = g.input_like(3).dtype();
  const auto arrived = [&](int i, const Shape& shape) {
    return g.has_head(i) ? nd._reshape_to(in_dtype(g.head(i), dtype), {.shape = shape}) : NDArray();
  };
  NormSecond d = second_gradient(f, arrived(0, f.x.shape()), arrived(1, f.gamma.shape()), arrived(2, f.gamma.shape()));
  if (d.scale.defined()) d.scale = -d.scale * nd.square(f.scale);  // of std
  const NDArray* const results[] = {&d.head, &d.x, &d.gamma, &d.mean, &d.scale};
  for (int i = 0; i < 5; ++i) {
    if (!g.wants(i) || !results[i]->defined()) continue;
    g.set(i, nd._reshape_to(in_dtype(*results[i], g.input_like(i).dtype()), {.shape = g.input_like(i).shape()}));
  }
}

void run_cpu(const op::BackwardLayerNorm& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) { backward<T>(op, c); });
}

}  // namespace kaon
