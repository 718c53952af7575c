#include "kaon/ops/nn/conv/conv.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/nn/conv/kernels/conv_kernels.h"
#include "kaon/ops/nn/conv/kernels/conv_layout.h"
#include "kaon/ops/nn/conv/kernels/conv_primitives.h"
#include "kaon/ops/nn/conv/kernels/conv_window.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

template <ConvPart P>
constinit const OpDef op::ConvolutionOp<P>::def = make_op_def<op::ConvolutionOp<P>>();

}  // namespace kaon

namespace kaon::ops {

void check_window(InferContext& c, const Shape& kernel, const Shape& stride, const Shape& dilate, const Shape& pad,
                  int axes, const char* dilate_name) {
  if (kernel.ndim() < 1 || kernel.ndim() > 3)
    c.fail_value(fmt::format("kernel must have 1 to 3 axes, got {}", kernel.str()));
  if (axes != kernel.ndim()) {
    c.fail(fmt::format("kernel {} needs data with {} dimensions; {}", kernel.str(), kernel.ndim() + 2,
                       c.describe_inputs()));
  }
  const auto check = [&](const char* name, const Shape& values, int64_t least) {
    if (values.ndim() != 0 && values.ndim() != axes) {
      c.fail_value(fmt::format("{} must have as many axes as kernel {}, got {}", name, kernel.str(), values.str()));
    }
    for (int64_t v : values) {
      if (v < least) c.fail_value(fmt::format("{} must be at least {}, got {}", name, least, values.str()));
      if (v > (1 << 20)) c.fail_value(fmt::format("{} must be at most {}, got {}", name, 1 << 20, values.str()));
    }
  };
  check("kernel", kernel, 1);
  check("stride", stride, 1);
  check(dilate_name, dilate, 1);
  check("pad", pad, 0);
}

void check_layout(InferContext& c, std::optional<ConvLayout> layout, int axes, bool channels_last_too) {
  if (!layout) return;
  constexpr ConvLayout first[] = {ConvLayout::NCW, ConvLayout::NCHW, ConvLayout::NCDHW};
  constexpr ConvLayout last[] = {ConvLayout::NWC, ConvLayout::NHWC, ConvLayout::NDHWC};
  if (*layout == first[axes - 1] || (channels_last_too && *layout == last[axes - 1])) return;
  std::string expected = to_text(first[axes - 1]);
  if (channels_last_too) expected += " or " + to_text(last[axes - 1]);
  c.fail_value(fmt::format("layout must be {} for this kernel, got {}", expected, to_text(*layout)));
}

namespace {

// The shape of y for data of this shape.
template <class Op>
Shape output_shape(const Op& op, const InferContext& c, const Shape& data) {
  Shape out(data[0], int64_t(op.num_filter));
  for (int i = 0; i < op.kernel.ndim(); ++i) {
    const int64_t stride = op.stride.empty() ? 1 : op.stride[i], dilate = op.dilate.empty() ? 1 : op.dilate[i];
    const int64_t room = data[i + 2] + 2 * (op.pad.empty() ? 0 : op.pad[i]) - dilate * (op.kernel[i] - 1) - 1;
    if (room < 0) c.fail(fmt::format("kernel {} exceeds the padded data; {}", op.kernel.str(), c.describe_inputs()));
    out.push_back(room / stride + 1);
  }
  return out;
}

template <class Op>
Shape weight_shape(const Op& op, const Shape& data) {
  Shape w(int64_t(op.num_filter), data[1] / op.num_group);
  for (int64_t k : op.kernel) w.push_back(k);
  return w;
}

template <class Op>
void check_channels(const Op& op, InferContext& c, const Shape& data, const Shape& given) {
  if (op.num_filter < 1 || op.num_group < 1 || op.num_filter % op.num_group != 0) {
    c.fail_value(
        fmt::format("num_filter must be a positive multiple of num_group, got {} and {}", op.num_filter, op.num_group));
  }
  if (data[1] < 1 || data[1] % op.num_group != 0) {
    c.fail(fmt::format("the channels of data must be a positive multiple of num_group {}, got shape {}", op.num_group,
                       given.str()));
  }
}

}  // namespace

}  // namespace kaon::ops

namespace kaon {

template <ConvPart P>
void op::ConvolutionOp<P>::infer(InferContext& c) const {
  constexpr int at = P == ConvPart::forward ? 0 : P == ConvPart::backward_data ? 2 : 1;  // the input that is the data
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim_at_least(at, 3);
  const Shape given = c.shape(at), data = channels_first(given, layout);
  if (post_ops != PostOps()) c.fail_value("__post_ops__ is for the nodes of plans");
  check_window(c, kernel, stride, dilate, pad, data.ndim() - 2);
  check_layout(c, layout, data.ndim() - 2, true);
  check_channels(*this, c, data, given);
  const Shape out = in_layout(output_shape(*this, c, data), layout);
  const Shape weight = in_layout(weight_shape(*this, data), layout);
  if constexpr (P == ConvPart::forward) {
    c.expect_shape(1, weight);
    if (!no_bias) c.expect_shape(2, Shape(num_filter));
    c.set_output(out, c.dtype());
  } else {
    c.expect_shape(0, out);
    if constexpr (P == ConvPart::backward_data) {
      c.expect_shape(1, weight);
      c.set_output(given, c.dtype());
    } else {
      c.set_output(0, weight, c.dtype());
      if (!no_bias) c.set_output(1, Shape(num_filter), c.dtype());
    }
  }
}

template <ConvPart P>
void op::ConvolutionOp<P>::grad(GradContext& g) const {
  constexpr auto forward = ConvPart::forward, data_part = ConvPart::backward_data,
                 weight_part = ConvPart::backward_weight;
  if constexpr (P == forward) {
    const bool bias = !no_bias && g.wants(2);
    if (g.wants(0)) g.set(0, nd._backward_Convolution_data(g.head(), g.input(1), g.input(0), part<data_part>(true)));
    if (g.wants(1)) {
      const std::vector<NDArray> both = nd._backward_Convolution_weight(g.head(), g.input(0), part<weight_part>(!bias));
      g.set(1, both[0]);
      if (bias) g.set(2, both[1]);
    } else if (bias) {
      g.set(2, nd.sum(g.head(), {.axis = Shape(channel_axis(layout, g.head().ndim())), .exclude = true}));
    }
  } else if constexpr (P == data_part) {
    // dx is linear in dy and in w
    if (g.wants(0)) g.set(0, nd.Convolution(g.head(), g.input(1), part<forward>(true)));
    if (g.wants(1)) g.set(1, nd._backward_Convolution_weight(g.input(0), g.head(), part<weight_part>(true))[0]);
  } else {
    // dw and db are linear in dy, and dw in x
    const bool bias = !no_bias && g.has_head(1);
    if (g.wants(0)) {
      g.set(0, bias ? nd.Convolution(g.input(1), g.head(0), g.head(1), part<forward>(false))
                    : nd.Convolution(g.input(1), g.head(0), part<forward>(true)));
    }
    if (g.wants(1) && g.has_head(0)) {
      g.set(1, nd._backward_Convolution_data(g.input(0), g.head(0), g.input(1), part<data_part>(true)));
    }
  }
}

template <ConvPart P>
ImageUse op::ConvolutionOp<P>::image_use() const {
  if (is_channels_last(layout)) return {};  // row-major: that is channels last for the kernels
  ImageUse use{.blocks = true, .prefers_channels_last = true};
  switch (P) {
    case ConvPart::forward:
      use.inputs = bit(0) | (post_ops.addend ? bit(num_inputs() - 1) : 0);
      use.outputs = bit(0);
      use.few_channels = 0;
      break;
    case ConvPart::backward_data:
      use.inputs = bit(0) | bit(2);
      use.outputs = bit(0);
      break;
    case ConvPart::backward_weight:
      use.inputs = bit(0) | bit(1);
      use.few_channels = 1;
      break;
  }
  return use;
}

template <ConvPart P>
double op::ConvolutionOp<P>::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const {
  const TensorMeta& weight = P == ConvPart::backward_weight ? outputs[0] : inputs[1];
  const TensorMeta& y = P == ConvPart::forward ? outputs[0] : inputs[0];  // or its gradient
  return 2 * double(y.shape.size()) * double(weight.shape.size()) / std::max(1.0, double(num_filter));
}

template <ConvPart P>
Variants op::ConvolutionOp<P>::variants(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs,
                                        bool winograd) const {
  if (outputs[0].dtype == DType::float64 || inputs[0].shape[0] == 0) return {};
  const auto geometry = [&](const TensorMeta& in, const TensorMeta& out) {
    return geometry_of(*this, channels_first(in.shape, layout), channels_first(out.shape, layout));
  };
  if constexpr (P == ConvPart::forward) {
    return conv_variants(ConvKind::forward, geometry(inputs[0], outputs[0]), winograd);
  } else if constexpr (P == ConvPart::backward_data) {
    return conv_variants(ConvKind::backward_data, geometry(outputs[0], inputs[0]), winograd);
  } else {
    return conv_variants(ConvKind::backward_weight, geometry(inputs[1], inputs[0]), winograd);
  }
}

template <ConvPart P>
void run_cpu(const op::ConvolutionOp<P>& op, KernelContext& context) {
  as_float32(context, [&](KernelContext& c) {
    const bool is_double = c.out(0).dtype == DType::float64;
    const auto image = [&](const TensorView& view) { return as_images(view, op.layout); };
    if constexpr (P == ConvPart::forward) {
      const TensorView x = image(c.in(0)), y = image(c.out());
      const ConvGeometry g = geometry_of(op, x.shape, y.shape);
      if (is_double) {
        conv_forward_double(c, g, x, c.in(1).as<double>(), y, layer_epilogue<double>(c, op.no_bias, op.post_ops));
      } else {
        conv_forward(c, g, x, c.in(1).as<float>(), y, layer_epilogue<float>(c, op.no_bias, op.post_ops));
      }
    } else if constexpr (P == ConvPart::backward_data) {
      const TensorView dy = image(c.in(0)), dx = image(c.out());
      const ConvGeometry g = geometry_of(op, dx.shape, dy.shape);
      if (is_double) {
        conv_backward_data_double(c, g, dy, c.in(1).as<double>(), dx);
      } else {
        conv_backward_data(c, g, dy, c.in(1).as<float>(), dx);
      }
    } else {
      const TensorView dy = image(c.in(0)), x = image(c.in(1));
      const ConvGeometry g = geometry_of(op, x.shape, dy.shape);
      void* dw = c.out(0).data ? c.out(0).data : c.run.workspace(size_t(g.weights()) * size_of(c.out(0).dtype));
      void* db = op.no_bias ? nullptr : c.out(1).data;
      if (is_double) {
        conv_backward_weight_double(c, g, dy, x, static_cast<double*>(dw), static_cast<double*>(db));
      } else {
        conv_backward_weight(c, g, dy, x, static_cast<float*>(dw), static_cast<float*>(db));
      }
    }
  });
}

template struct op::ConvolutionOp<ConvPart::forward>;
template struct op::ConvolutionOp<ConvPart::backward_data>;
template struct op::ConvolutionOp<ConvPart::backward_weight>;
template void run_cpu(const op::Convolution&, KernelContext&);
template void run_cpu(const op::ConvolutionBackwardData&, KernelContext&);
template void run_cpu(const op::ConvolutionBackwardWeight&, KernelContext&);

}  // namespace kaon
