#include "kaon/ops/nn/conv/conv.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/nn/conv/kernels/conv_kernels.h"
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
                  std::optional<ConvLayout> layout, int axes, const char* dilate_name) {
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
  if (!layout) return;
  constexpr ConvLayout expected[] = {ConvLayout::NCW, ConvLayout::NCHW, ConvLayout::NCDHW};
  if (*layout != expected[axes - 1]) {
    c.fail_value(
        fmt::format("layout must be {} for this kernel, got {}", to_text(expected[axes - 1]), to_text(*layout)));
  }
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
void check_channels(const Op& op, InferContext& c, const Shape& data) {
  if (op.num_filter < 1 || op.num_group < 1 || op.num_filter % op.num_group != 0) {
    c.fail_value(
        fmt::format("num_filter must be a positive multiple of num_group, got {} and {}", op.num_filter, op.num_group));
  }
  if (data[1] < 1 || data[1] % op.num_group != 0) {
    c.fail(fmt::format("the channels of data must be a positive multiple of num_group {}, got shape {}", op.num_group,
                       data.str()));
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
  const Shape data = c.shape(at);
  if (post_ops != PostOps()) c.fail_value("__post_ops__ is for the nodes of plans");
  check_window(c, kernel, stride, dilate, pad, layout, data.ndim() - 2);
  check_channels(*this, c, data);
  const Shape out = output_shape(*this, c, data), weight = weight_shape(*this, data);
  if constexpr (P == ConvPart::forward) {
    c.expect_shape(1, weight);
    if (!no_bias) c.expect_shape(2, Shape(num_filter));
    c.set_output(out, c.dtype());
  } else {
    c.expect_shape(0, out);
    if constexpr (P == ConvPart::backward_data) {
      c.expect_shape(1, weight);
      c.set_output(data, c.dtype());
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
      g.set(2, nd.sum(g.head(), {.axis = Shape(1), .exclude = true}));
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

namespace {

template <ConvPart P>
ConvGeometry geometry_of(const op::ConvolutionOp<P>& op, const Shape& in, const Shape& out) {
  return make_geometry(in, out, op.kernel, op.stride, op.dilate, op.pad, op.num_group);
}

}  // namespace

template <ConvPart P>
Variants op::ConvolutionOp<P>::variants(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs,
                                        bool winograd) const {
  if (outputs[0].dtype == DType::float64 || inputs[0].shape[0] == 0) return {};
  if constexpr (P == ConvPart::forward) {
    return conv_variants(ConvKind::forward, geometry_of(*this, inputs[0].shape, outputs[0].shape), winograd);
  } else if constexpr (P == ConvPart::backward_data) {
    return conv_variants(ConvKind::backward_data, geometry_of(*this, outputs[0].shape, inputs[0].shape), false);
  } else {
    return conv_variants(ConvKind::backward_weight, geometry_of(*this, inputs[1].shape, inputs[0].shape), false);
  }
}

template <ConvPart P>
void run_cpu(const op::ConvolutionOp<P>& op, KernelContext& context) {
  as_float32(context, [&](KernelContext& c) {
    const bool is_double = c.out(0).dtype == DType::float64;
    const auto geometry = [&](const TensorView& in, const TensorView& out) {
      return geometry_of(op, in.shape, out.shape);
    };
    if constexpr (P == ConvPart::forward) {
      const ConvGeometry g = geometry(c.in(0), c.out());
      if (is_double) {
        conv_forward_double(c, g, c.in(0).as<double>(), c.in(1).as<double>(), c.out().as<double>(),
                            layer_epilogue<double>(c, op.no_bias, op.post_ops));
      } else {
        conv_forward(c, g, c.in(0), c.in(1).as<float>(), c.out(), layer_epilogue<float>(c, op.no_bias, op.post_ops));
      }
    } else if constexpr (P == ConvPart::backward_data) {
      const ConvGeometry g = geometry(c.out(), c.in(0));
      if (is_double) {
        conv_backward_data_double(c, g, c.in(0).as<double>(), c.in(1).as<double>(), c.out().as<double>());
      } else {
        conv_backward_data(c, g, c.in(0), c.in(1).as<float>(), c.out());
      }
    } else {
      const ConvGeometry g = geometry(c.in(1), c.in(0));
      void* dw = c.out(0).data ? c.out(0).data : c.run.workspace(size_t(g.weights()) * size_of(c.out(0).dtype));
      void* db = op.no_bias ? nullptr : c.out(1).data;
      if (is_double) {
        conv_backward_weight_double(c, g, c.in(0).as<double>(), c.in(1).as<double>(), static_cast<double*>(dw),
                                    static_cast<double*>(db));
      } else {
        conv_backward_weight(c, g, c.in(0), c.in(1), static_cast<float*>(dw), static_cast<float*>(db));
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
