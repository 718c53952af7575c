#include "kaon/ops/nn/pooling.h"

#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/nn/as_float32.h"
#include "kaon/ops/nn/pooling_kernels.h"
#include "kaon/ops/op_def.h"

namespace kaon {
namespace {

template <class T, class Op>
PoolJob<T> make_job(const Op& op, const TensorView& data, const TensorView& output) {
  const PoolWindows w = pool_windows(op, data.shape);
  // a block of 16 channels is an image of its own
  const bool in_blocks = data.layout == Layout::blocked16;
  const auto images = [&](Shape shape) {
    if (in_blocks) shape[0] *= shape[1] / 16, shape[1] = 16;
    return shape;
  };
  PoolJob<T> job;
  job.g = make_geometry(images(data.shape), images(output.shape), w.kernel, w.stride, Shape(), w.pad, 1);
  job.type = op.pool_type;
  job.count_pad = op.count_include_pad.value_or(true);
  job.p = op.p_value.value_or(2);
  job.channels_last = in_blocks || data.layout == Layout::channels_last;
  job.x = data.as<T>();
  return job;
}

}  // namespace

template <PoolPart P>
constinit const OpDef PoolingOp<P>::def = make_op_def<PoolingOp<P>>();

template <PoolPart P>
void PoolingOp<P>::infer(InferContext& c) const {
  constexpr int at = P == PoolPart::forward ? 0 : 1;  // of the data
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim_at_least(at, 3);
  const Shape data = c.shape(at);
  const int axes = data.ndim() - 2;
  if (axes > 3) c.fail(fmt::format("data must have 3 to 5 dimensions, got {}", data.str()));
  for (int i = 2; i < data.ndim(); ++i) {
    if (data[i] < 1) c.fail(fmt::format("data must have spatial axes of at least 1, got {}", data.str()));
  }
  if (global_pool) {
    check_window(c, Shape::filled(axes, 1), Shape(), Shape(), Shape(), layout, axes);
  } else {
    check_window(c, kernel, stride, Shape(), pad, layout, axes);
  }
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
    if (w.out[i + 2] < 1) c.fail(fmt::format("kernel {} exceeds the padded data {}", kernel.str(), data.str()));
    if (!global_pool && w.pad[i] >= w.kernel[i]) {
      c.fail_value(fmt::format("pad {} must be smaller than kernel {}", pad.str(), kernel.str()));
    }
  }
  if constexpr (P == PoolPart::forward) {
    c.set_output(w.out, c.dtype());
  } else if constexpr (P == PoolPart::backward) {
    c.expect_shape(0, w.out);
    c.expect_shape(2, w.out);
    c.set_output(data, c.dtype());
  } else {
    if (pool_type == PoolType::lp) c.fail_value("lp is not implemented");
    c.expect_shape(0, data);
    c.expect_shape(2, w.out);
    c.set_output(w.out, c.dtype());
  }
}

template <PoolPart P>
void PoolingOp<P>::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const auto part = [&]<class Op>(Op op) {
    op.kernel = kernel, op.pool_type = pool_type, op.global_pool = global_pool;
    op.pooling_convention = pooling_convention, op.stride = stride, op.pad = pad, op.p_value = p_value;
    op.count_include_pad = count_include_pad, op.layout = layout;
    return op;
  };
  if constexpr (P == PoolPart::forward) {
    g.set(0, nd._backward_Pooling(g.head(), g.input(0), g.output(), part(BackwardPooling())));
  } else if constexpr (P == PoolPart::backward) {
    if (pool_type == PoolType::lp) {
      throw StateError("[_backward_Pooling] has no gradient for lp: gradients of gradients stop here");
    }
    g.set(0, nd._pooling_along(g.head(), g.input(1), g.input(2), part(PoolingAlong())));
  } else {
    g.set(0, nd._backward_Pooling(g.head(), g.input(1), g.input(2), part(BackwardPooling())));
  }
}

template <PoolPart P>
void run_cpu(const PoolingOp<P>& op, KernelContext& context) {
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

template struct PoolingOp<PoolPart::forward>;
template struct PoolingOp<PoolPart::backward>;
template struct PoolingOp<PoolPart::along>;
template void run_cpu(const Pooling&, KernelContext&);
template void run_cpu(const BackwardPooling&, KernelContext&);
template void run_cpu(const PoolingAlong&, KernelContext&);

}  // namespace kaon
