#include "kaon/ops/nn/conv/conv.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/nn/conv/kernels/conv_kernels.h"
#include "kaon/ops/nn/conv/kernels/conv_layout.h"
#include "kaon/ops/nn/conv/kernels/conv_window.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// The convolution from y's side to x's side; data is (n, c, ...).
op::Convolution mirrored(const op::Deconvolution& op, const Shape& data) {
  return {.kernel = op.kernel,
          .stride = op.stride,
          .dilate = op.dilate,
          .pad = extent_of(op, data).pad,
          .num_filter = int(data[1]),
          .num_group = op.num_group,
          .no_bias = true,
          .layout = op.layout};
}

template <class T>
void add_bias(RunContext& run, const T* bias, const TensorView& y) {
  const int64_t channels = y.shape[1], positions = y.shape.product(2, y.shape.ndim());
  T* out = y.as<T>();
  if (y.layout == Layout::channels_last) {
    return run.parallel_for(y.shape[0] * positions, std::max<int64_t>(1, (1 << 16) / channels),
                            [&](int64_t begin, int64_t end) {
                              for (T *row = out + begin * channels, *last = out + end * channels; row != last;) {
                                for (int64_t i = 0; i < channels; ++i) *row++ += bias[i];
                              }
                            });
  }
  run.parallel_for(y.shape[0] * channels, std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, positions)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t plane = begin; plane < end; ++plane) {
                       const T b = bias[plane % channels];
                       for (int64_t i = plane * positions; i < (plane + 1) * positions; ++i) out[i] += b;
                     }
                   });
}

}  // namespace

constinit const OpDef op::Deconvolution::def = make_op_def<op::Deconvolution>();

void op::Deconvolution::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim_at_least(0, 3);
  const Shape given = c.shape(0), data = channels_first(given, layout);
  check_window(c, kernel, stride, dilate, pad, data.ndim() - 2);
  check_layout(c, layout, data.ndim() - 2, true);
  if (num_filter < 1 || num_group < 1 || num_filter % num_group != 0) {
    c.fail_value(
        fmt::format("num_filter must be a positive multiple of num_group, got {} and {}", num_filter, num_group));
  }
  if (data[1] < 1 || data[1] % num_group != 0) {
    c.fail(fmt::format("the channels of data must be a positive multiple of num_group {}, got shape {}", num_group,
                       given.str()));
  }
  const int axes = kernel.ndim();
  if ((!adj.empty() && adj.ndim() != axes) || (!target_shape.empty() && target_shape.ndim() != axes)) {
    c.fail_value(fmt::format("adj and target_shape must have as many axes as kernel {}, got {} and {}", kernel.str(),
                             adj.str(), target_shape.str()));
  }
  const DeconvolutionExtent e = extent_of(*this, data);
  // adj and pad are not read then
  const bool has_target = std::any_of(target_shape.begin(), target_shape.end(), [](int64_t t) { return t != 0; });
  for (int i = 0; i < axes; ++i) {
    const int64_t step = stride.empty() ? 1 : stride[i];
    if (!has_target && !adj.empty() && (adj[i] < 0 || adj[i] >= step)) {
      c.fail_value(fmt::format("adj must be at least 0 and smaller than stride, got {}", adj.str()));
    }
    if (e.adj[i] >= step) {
      c.fail_value(
          fmt::format("target_shape {} needs adj {} along axis {} for data {}, and adj must be smaller than "
                      "stride {}",
                      target_shape.str(), e.adj[i], i, given.str(), step));
    }
    if (data[i + 2] < 1 || e.pad[i] < 0 || e.out[i + 2] < 1) {
      c.fail(fmt::format("data {} does not give positions {} with kernel {} and pad {}", given.str(), e.out.str(),
                         kernel.str(), pad.str()));
    }
  }
  Shape weight(data[1], int64_t(num_filter / num_group));
  for (int64_t k : kernel) weight.push_back(k);
  c.expect_shape(1, in_layout(weight, layout));
  if (!no_bias) c.expect_shape(2, Shape(num_filter));
  c.set_output(in_layout(e.out, layout), c.dtype());
}

void op::Deconvolution::grad(GradContext& g) const {
  const op::Convolution back = mirrored(*this, channels_first(g.input_like(0).shape(), layout));
  if (g.wants(0)) g.set(0, nd.Convolution(g.head(), g.input(1), back));
  if (g.wants(1)) {
    g.set(1, nd._backward_Convolution_weight(g.input(0), g.head(), back.part<ConvPart::backward_weight>(true))[0]);
  }
  if (no_bias || !g.wants(2)) return;
  g.set(2, nd.sum(g.head(), {.axis = Shape(channel_axis(layout, g.head().ndim())), .exclude = true}));
}

void run_cpu(const op::Deconvolution& op, KernelContext& context) {
  as_float32(context, [&](KernelContext& c) {
    const TensorView x = as_images(c.in(0), op.layout), y = as_images(c.out(), op.layout);
    op::Deconvolution padded = op;
    padded.pad = extent_of(op, x.shape).pad;
    const ConvGeometry g = geometry_of(padded, y.shape, x.shape);
    if (y.dtype == DType::float64) {
      conv_backward_data_double(c, g, x, c.in(1).as<double>(), y);
      if (!op.no_bias) add_bias(c.run, c.in(2).as<double>(), y);
    } else {
      conv_backward_data(c, g, x, c.in(1).as<float>(), y);
      if (!op.no_bias) add_bias(c.run, c.in(2).as<float>(), y);
    }
  });
}

}  // namespace kaon
