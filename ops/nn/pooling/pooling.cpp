#include "kaon/ops/nn/pooling/pooling.h"

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/nn/conv/kernels/conv_layout.h"
#include "kaon/ops/nn/conv/kernels/conv_window.h"
#include "kaon/ops/nn/pooling/kernels/pooling_kernels.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

template <class T, class Op>
PoolJob<T> make_job(const Op& op, const TensorView& given, const TensorView& given_output) {
  const TensorView data = as_images(given, op.layout), output = as_images(given_output, op.layout);
  const PoolWindows w = pool_windows(op, data.shape);
  // each block of 16 channels is treated as an image
  const bool in_blocks = data.layout == Layout::blocked16;
  const auto images = [&](Shape shape) {
    if (in_blocks) shape[0] *= shape[1] / 16, shape[1] = 16;
    return shape;
  };
  PoolJob<T> job;
  job.g = make_geometry(images(data.shape), images(output.shape), w.kernel, w.stride, w.dilation, w.pad, 1);
  job.type = op.pool_type;
  job.count_pad = op.count_include_pad.value_or(true);
  job.p = op.p_value.value_or(2);
  job.channels_last = in_blocks || data.layout == Layout::channels_last;
  job.x = data.as<T>();
  return job;
}

// The gradient of the p-norm's gradient, which is u S'(g r): of the data x the factor u = sign(x) |x|^(p - 1), of the
// output y the factor r = y^(1 - p) or 0 where y is 0, of the head g; S sums windows and S' is its transpose. `sum` is
// the operator S, `spread` is S'.
void norm_again(GradContext& g, int p, const op::Pooling& sum, const op::BackwardPooling& spread) {
  const DType dtype = g.input_like(0).dtype();
  const auto wide = [](const NDArray& a) { return nd.cast(a, DType::float64); };  // 1 / y^p stays in its range
  const NDArray tangent = wide(g.head()), head = wide(g.input(0)), x = wide(g.input(1)), y = wide(g.input(2));
  const NDArray none = y == 0.0, safe = y + none;
  const NDArray r = (1.0 - none) * nd.power(safe, 1 - p);
  const NDArray u = p == 1 ? 1.0 - 2.0 * (x < 0.0) : p == 2 ? x : x * nd.abs(x);
  const NDArray reached = nd.Pooling(tangent * u, sum);
  const auto set = [&](int i, const NDArray& gradient) { g.set(i, nd.cast(gradient, dtype)); };
  if (g.wants(0)) set(0, r * reached);
  if (p == 1) return;  // the gradient of the head does not depend on data or output, except at 0
  if (g.wants(1)) {
    const NDArray spread_heads = nd._backward_Pooling(head * r, x, y, spread);
    set(1, tangent * spread_heads * (p == 2 ? nd.ones_like(x) : 2.0 * nd.abs(x)));
  }
  if (g.wants(2)) set(2, head * reached * r * double(1 - p) / safe);
}

}  // namespace

template <PoolPart P>
constinit const OpDef op::PoolingOp<P>::def = make_op_def<op::PoolingOp<P>>();

template <PoolPart P>
void op::PoolingOp<P>::infer(InferContext& c) const {
  constexpr int at = P == PoolPart::forward ? 0 : 1;  // of the data
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim_at_least(at, 3);
  const Shape given = c.shape(at), data = channels_first(given, layout);
  const int axes = data.ndim() - 2;
  if (axes > 3) c.fail(fmt::format("data must have 3 to 5 dimensions, got {}", given.str()));
  for (int i = 2; i < data.ndim(); ++i) {
    if (data[i] < 1) c.fail(fmt::format("data must have spatial axes of at least 1, got {}", given.str()));
  }
  if (!global_pool) check_window(c, kernel, stride, dilation, pad, axes, "dilation");
  check_layout(c, layout, axes, true);
  if (pool_type == PoolType::lp && (p_value.value_or(2) < 1 || p_value.value_or(2) > 3)) {
    c.fail_value(fmt::format("p_value must be 1, 2 or 3, got {}", *p_value));
  }
  for (int64_t p : pad) {
    if (pooling_convention == PoolingConvention::same && p != 0 && !global_pool) {
      c.fail_value(fmt::format("pooling_convention same takes no pad, got {}", pad.str()));
    }
  }
  const PoolWindows w = pool_windows(*this, data);
  for (int i = 0; i < axes; ++i) {
    if (w.out[i + 2] < 1) c.fail(fmt::format("kernel {} exceeds the padded data {}", kernel.str(), given.str()));
    if (!global_pool && w.pad[i] >= w.kernel[i]) {
      c.fail_value(fmt::format("pad {} must be smaller than kernel {}", pad.str(), kernel.str()));
    }
  }
  const Shape out = in_layout(w.out, layout);
  if constexpr (P == PoolPart::forward) {
    c.set_output(out, c.dtype());
  } else if constexpr (P == PoolPart::backward) {
    c.expect_shape(0, out);
    c.expect_shape(2, out);
    c.set_output(given, c.dtype());
  } else {
    if (pool_type == PoolType::lp) c.fail_value("lp is not implemented");
    c.expect_shape(0, given);
    c.expect_shape(2, out);
    c.set_output(out, c.dtype());
  }
}

template <PoolPart P>
void op::PoolingOp<P>::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  const auto part = [&]<class Op>(Op op) {
    op.kernel = kernel, op.pool_type = pool_type, op.global_pool = global_pool;
    op.pooling_convention = pooling_convention, op.stride = stride, op.pad = pad, op.p_value = p_value;
    op.count_include_pad = count_include_pad, op.layout = layout, op.dilation = dilation;
    return op;
  };
  if constexpr (P == PoolPart::forward) {
    if (g.wants(0)) g.set(0, nd._backward_Pooling(g.head(), g.input(0), g.output(), part(op::BackwardPooling())));
  } else if constexpr (P == PoolPart::backward) {
    if (pool_type == PoolType::lp) {
      op::Pooling sum = part(op::Pooling());
      op::BackwardPooling spread = part(op::BackwardPooling());
      sum.pool_type = spread.pool_type = PoolType::sum;
      return norm_again(g, p_value.value_or(2), sum, spread);
    }
    if (g.wants(0)) g.set(0, nd._pooling_along(g.head(), g.input(1), g.input(2), part(op::PoolingAlong())));
  } else {
    if (g.wants(0)) g.set(0, nd._backward_Pooling(g.head(), g.input(1), g.input(2), part(op::BackwardPooling())));
  }
}

template <PoolPart P>
void run_cpu(const op::PoolingOp<P>& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    if constexpr (P == PoolPart::forward) {
      PoolJob<T> job = make_job<T>(op, c.in(0), c.out());
      job.out = c.out().template as<T>();
      pool_forward(c.run, job);
    } else {
      PoolJob<T> job = make_job<T>(op, c.in(1), c.in(2));
      job.head = c.in(0).template as<T>();
      job.y = c.in(2).template as<T>();
      job.out = c.out().template as<T>();
      if constexpr (P == PoolPart::backward) {
        pool_backward(c.run, job);
      } else {
        pool_along(c.run, job);
      }
    }
  });
}

template struct op::PoolingOp<PoolPart::forward>;
template struct op::PoolingOp<PoolPart::backward>;
template struct op::PoolingOp<PoolPart::along>;
template void run_cpu(const op::Pooling&, KernelContext&);
template void run_cpu(const op::BackwardPooling&, KernelContext&);
template void run_cpu(const op::PoolingAlong&, KernelContext&);

}  // namespace kaon
