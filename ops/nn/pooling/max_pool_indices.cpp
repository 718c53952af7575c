// Maxima with their places, and images filled by places.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/nn/conv/kernels/conv_window.h"
#include "kaon/ops/nn/pooling/kernels/plane_indices.h"
#include "kaon/ops/nn/pooling/kernels/pool_places.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

struct ThrowOutside {
  const char* op;
  void operator()(int64_t place, int64_t size) const {
    throw IndexError(fmt::format("[{}] place {} is outside of an image of {} elements", op, place, size));
  }
};

void expect_places(InferContext& c) {
  if (c.dtype(1) != DType::int64) c.fail_dtype(fmt::format("indices must be int64, got {}", name_of(c.dtype(1))));
  c.expect_ndim_at_least(0, 3);
  const Shape data = c.shape(0), places = c.shape(1);
  if (places.ndim() < 3 || data[0] != places[0] || data[1] != places[1]) {
    c.fail(fmt::format("data and indices must be (n, c, ...) of one n and c; inputs: {}", c.describe_inputs()));
  }
}

// (n, c) and output_size.
Shape filled_shape(InferContext& c, const Shape& output_size) {
  expect_places(c);
  Shape out = c.shape(0);
  c.expect_shape(1, out);
  const bool fits = output_size.ndim() == out.ndim() - 2 &&
                    std::all_of(output_size.begin(), output_size.end(), [](int64_t size) { return size >= 1; });
  if (!fits) {
    c.fail_value(
        fmt::format("output_size must be {} numbers of at least 1, got {}", out.ndim() - 2, output_size.str()));
  }
  for (int i = 2; i < out.ndim(); ++i) out[i] = output_size[i - 2];
  return out;
}

Shape spatial(const Shape& images) {
  Shape sizes;
  for (int i = 2; i < images.ndim(); ++i) sizes.push_back(images[i]);
  return sizes;
}

template <class T, class A, bool add>
void fill_planes(KernelContext& c, const char* name) {
  const Shape &from = c.in(0).shape, &to = c.out().shape;
  const int64_t size = to.product(2, to.ndim());
  const FillPlane<T, A, add, ThrowOutside> fill{size,
                                                from.product(2, from.ndim()),
                                                c.in(0).as<const T>(),
                                                c.in(1).as<const int64_t>(),
                                                c.out().as<A>(),
                                                c.out().as<T>(),
                                                {name}};
  c.run.parallel_for(to[0] * to[1], std::max<int64_t>(1, (1 << 14) / size), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) fill(plane);
  });
}

}  // namespace

constinit const OpDef op::MaxPoolIndices::def = make_op_def<op::MaxPoolIndices>();
constinit const OpDef op::MaxUnpool::def = make_op_def<op::MaxUnpool>();
constinit const OpDef op::BackwardMaxPoolIndices::def = make_op_def<op::BackwardMaxPoolIndices>();
constinit const OpDef op::PlaneTake::def = make_op_def<op::PlaneTake>();

void op::MaxPoolIndices::infer(InferContext& c) const {
  // as the maxima of Pooling, checks and all
  const Shape data = c.shape(0);
  op::Pooling pooling;
  pooling.kernel = kernel, pooling.global_pool = global_pool, pooling.pooling_convention = pooling_convention;
  pooling.stride = stride, pooling.pad = pad, pooling.dilation = dilation;
  pooling.infer(c);
  c.set_output(1, pool_windows(*this, data).out, DType::int64);
}

void op::MaxPoolIndices::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd._backward_max_pool_indices(g.head(), g.output(1), {.output_size = spatial(g.input_like(0).shape())}));
}

void run_cpu(const op::MaxPoolIndices& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    const PoolWindows w = pool_windows(op, c.in(0).shape);
    const PoolSizes s(make_geometry(c.in(0).shape, w.out, w.kernel, w.stride, w.dilation, w.pad, 1));
    pool_with_places(c.run, s, w.out[0] * w.out[1], c.in(0).as<const T>(), c.out(0).as<T>(), c.out(1).as<int64_t>());
  });
}

void op::MaxUnpool::infer(InferContext& c) const { c.set_output(filled_shape(c, output_size), c.dtype()); }

void op::MaxUnpool::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd._plane_take(g.head(), g.input(1)));
}

void run_cpu(const op::MaxUnpool&, KernelContext& c) {
  dispatch_width(c.out().dtype, [&]<class T>() { fill_planes<T, T, false>(c, "max_unpool"); });
}

void op::BackwardMaxPoolIndices::infer(InferContext& c) const {
  c.expect_floating();
  c.set_output(filled_shape(c, output_size), c.dtype());
}

void op::BackwardMaxPoolIndices::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd._plane_take(g.head(), g.input(1)));
}

void run_cpu(const op::BackwardMaxPoolIndices&, KernelContext& context) {
  in_float_or_double(context,
                     [&]<class T>(KernelContext& c) { fill_planes<T, T, true>(c, "_backward_max_pool_indices"); });
}

void op::PlaneTake::infer(InferContext& c) const {
  expect_places(c);
  c.set_output(c.shape(1), c.dtype());
}

void op::PlaneTake::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd._backward_max_pool_indices(g.head(), g.input(1), {.output_size = spatial(g.input_like(0).shape())}));
}

void run_cpu(const op::PlaneTake&, KernelContext& c) {
  const Shape &images = c.in(0).shape, &places = c.out().shape;
  dispatch_width(c.out().dtype, [&]<class T>() {
    const TakePlace<T, ThrowOutside> take{images.product(2, images.ndim()),
                                          places.product(2, places.ndim()),
                                          c.in(0).as<const T>(),
                                          c.in(1).as<const int64_t>(),
                                          c.out().as<T>(),
                                          {"_plane_take"}};
    c.run.parallel_for(c.out().size(), 1 << 13, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) take(i);
    });
  });
}

}  // namespace kaon
