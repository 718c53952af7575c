// Convolutions and dense layers of levels.
#include <fmt/format.h>

#include <cmath>

#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/quant/kernels/integer_layers.h"
#include "kaon/ops/quant/kernels/layer_finish.h"
#include "kaon/ops/quant/kernels/layer_values.h"
#include "kaon/ops/quant/kernels/layer_weights.h"
#include "kaon/ops/quant/kernels/quant_infer.h"
#include "kaon/ops/quant/kernels/ranges.h"

namespace kaon {

using namespace ops;
namespace {

// Of levels of this dtype.
float usable_range(KernelContext& c, int input, DType dtype) {
  return ops::usable_range(*c.in(input).as<const float>(), *c.in(input + 1).as<const float>(), dtype);
}

void put_sum_range(KernelContext& c, float level) {
  put_number(c, 1, level * -2147483648.f);
  put_number(c, 2, level * 2147483647.f);
}

template <class Op>
ConvGeometry geometry_of(const Op& op, KernelContext& c) {
  return make_geometry(c.in(0).shape, c.out().shape, op.kernel, op.stride, op.dilate, op.pad, op.num_group);
}

// Of a dense layer: the rows of the data are the positions of one image.
ConvGeometry dense_geometry(KernelContext& c) {
  const Shape& weight = c.in(1).shape;
  const int64_t rows = weight[0] ? c.out().size() / weight[0] : 0;
  ConvGeometry g{.batch = 1, .in_channels = weight[1], .out_channels = weight[0]};
  g.in = g.out = {rows, 1, 0};
  g.kernel = g.stride = g.dilate = {1, 1, 0};
  return g;
}

// Runs the layer: `finish` has all but what the geometry gives.
void run_layer(KernelContext& c, const Int8ConvSet& set, const LayerWeights& weights, bool in_rows,
               LayerFinish finish) {
  finish.out = c.out();
  finish.in_rows = in_rows || c.out().layout == Layout::channels_last;
  finish.filters = set.g.out_channels * set.slices, finish.positions = set.g.out_positions();
  const bool reads_rows = in_rows || c.in(0).layout == Layout::channels_last;
  int8_convolution(c, set, c.in(0).data, reads_rows, weights.packed->data(), finish);
}

double sum_flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) {
  const Shape& weight = inputs[1].shape;
  return 2.0 * double(outputs[0].shape.size()) * double(weight.size()) / double(std::max<int64_t>(weight[0], 1));
}

// --- quantized_conv, quantized_fully_connected

// Both: inputs are data, weight and bias, then the range of each.
template <class Op, class Layer>
void infer_sums(const Op& op, InferContext& c, const Layer& layer) {
  const int own = op.no_bias ? 2 : 3;
  expect_dtype(c, 0, {DType::int8, DType::uint8});
  c.set_output(0, layer_shape(c, layer, own, DType::int8), DType::int32);
  for (int i = 0; i < own; ++i) expect_range(c, own + 2 * i);
  set_range(c);
}

void run_sums(KernelContext& c, const ConvGeometry& g, bool no_bias, bool in_rows) {
  const int ranges = no_bias ? 2 : 3;
  const DType data = c.in(0).dtype;
  const float data_range = usable_range(c, ranges, data), weight_range = usable_range(c, ranges + 2, DType::int8);
  put_sum_range(c, sum_level(data, data_range, weight_range));
  if (c.out().size() == 0) return;
  const auto set = int8_conv_set(c, g, data == DType::int8);
  const auto weights = packed_weights(c, *set, c.in(1).as<const int8_t>());
  LayerFinish finish;
  if (!no_bias) {
    auto* const bias = static_cast<int32_t*>(c.run.workspace(size_t(g.out_channels) * 4));
    const float per_unit = level_count(data) / data_range * (level_count(DType::int8) / weight_range);
    const float scale = per_unit * range_at(c, 7) / level_count(DType::int8);
    for (int64_t o = 0; o < g.out_channels; ++o) {
      bias[o] = nearest_level<int32_t>(std::trunc(float(c.in(2).as<const int8_t>()[o]) * scale));
    }
    finish.bias = bias;
  }
  run_layer(c, *set, *weights, in_rows, finish);
}

op::FullyConnected dense_of(int num_hidden, bool no_bias, bool flatten) {
  return {.num_hidden = num_hidden, .no_bias = no_bias, .flatten = flatten};
}

}  // namespace

constinit const OpDef op::QuantizedConv::def = make_op_def<op::QuantizedConv>();
constinit const OpDef op::QuantizedFullyConnected::def = make_op_def<op::QuantizedFullyConnected>();

void op::QuantizedConv::infer(InferContext& c) const { infer_sums(*this, c, convolution_of(*this)); }

void op::QuantizedFullyConnected::infer(InferContext& c) const {
  infer_sums(*this, c, dense_of(num_hidden, no_bias, flatten));
}

double op::QuantizedConv::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const {
  return sum_flops(inputs, outputs);
}
double op::QuantizedFullyConnected::flops(std::span<const TensorMeta> inputs,
                                          std::span<const TensorMeta> outputs) const {
  return sum_flops(inputs, outputs);
}

void run_cpu(const op::QuantizedConv& op, KernelContext& c) {
  run_sums(c, c.out().size() ? geometry_of(op, c) : ConvGeometry(), op.no_bias, false);
}

void run_cpu(const op::QuantizedFullyConnected& op, KernelContext& c) {
  run_sums(c, dense_geometry(c), op.no_bias, true);
}

// --- Layers of levels with a zero point

namespace {

template <class Op, class Layer>
void infer_integers(const Op& op, InferContext& c, const Layer& layer) {
  expect_dtype(c, 0, {DType::int8, DType::uint8});
  const DType out = op.out_type;
  if (out != DType::float32 && out != DType::int32 && out != DType::int8 && out != DType::uint8) {
    c.fail_value(fmt::format("out_type must be float32, int32, int8 or uint8, got {}", name_of(out)));
  }
  const Shape shape = layer_shape(c, layer, 2, DType::int8);
  const Shape filters(c.shape(1)[0]);
  c.expect_input(2, filters, DType::int32);
  c.expect_input(3, filters, DType::float32);
  c.set_output(shape, out);
}

template <class Op>
void run_integers(const Op& op, KernelContext& c, const ConvGeometry& g, bool in_rows) {
  const auto set = int8_conv_set(c, g, c.in(0).dtype == DType::int8);
  const auto weights = packed_weights(c, *set, c.in(1).as<const int8_t>());
  LayerFinish finish;
  finish.bias = c.in(2).as<const int32_t>(), finish.is_bias_whole = true;
  if (op.out_type != DType::int32) finish.scale = c.in(3).as<const float>();
  finish.zero = float(op.zero);
  if (op.relu) finish.act = FusedKind::relu;
  run_layer(c, *set, *weights, in_rows, finish);
}

op::Convolution convolution_of(const op::IntegerConv& op) {
  return {.kernel = op.kernel,
          .stride = op.stride,
          .dilate = op.dilate,
          .pad = op.pad,
          .num_filter = op.num_filter,
          .num_group = op.num_group,
          .no_bias = true};
}

}  // namespace

constinit const OpDef op::IntegerConv::def = make_op_def<op::IntegerConv>();
constinit const OpDef op::IntegerDense::def = make_op_def<op::IntegerDense>();

void op::IntegerConv::infer(InferContext& c) const { infer_integers(*this, c, kaon::convolution_of(*this)); }
void op::IntegerDense::infer(InferContext& c) const { infer_integers(*this, c, dense_of(num_hidden, true, false)); }

ImageUse op::IntegerConv::image_use() const {
  return {.inputs = 1, .outputs = 1, .levels = true, .prefers_channels_last = true, .few_channels = 0};
}

double op::IntegerConv::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const {
  return sum_flops(inputs, outputs);
}
double op::IntegerDense::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const {
  return sum_flops(inputs, outputs);
}

void run_cpu(const op::IntegerConv& op, KernelContext& c) {
  if (c.out().size() > 0) run_integers(op, c, geometry_of(op, c), false);
}
void run_cpu(const op::IntegerDense& op, KernelContext& c) {
  if (c.out().size() > 0) run_integers(op, c, dense_geometry(c), true);
}

// --- Layers from files

namespace {

// The attributes for the other form.
template <class To, class From>
To same_attributes(const From& from) {
  To to;
  static_assert(sizeof(To) == sizeof(From));
  From::fields([&]<class M>(std::string_view name, M From::*member, bool = false) {
    To::fields([&]<class N>(std::string_view other, N To::*target, bool = false) {
      if constexpr (std::is_same_v<M, N>) {
        if (name == other) to.*target = from.*member;
      }
    });
  });
  return to;
}

NDArray activated(const NDArray& x, FusedKind kind, double alpha) {
  switch (kind) {
    case FusedKind::none: return x;
    case FusedKind::relu: return nd.relu(x);
    case FusedKind::sigmoid: return nd.sigmoid(x);
    case FusedKind::softrelu: return nd.Activation(x, {.act_type = ActivationType::softrelu});
    case FusedKind::tanh: return nd.tanh(x);
    case FusedKind::clip: return nd.clip(x, 0, alpha);
    case FusedKind::leaky: return nd.LeakyReLU(x, {.act_type = LeakyType::leaky, .slope = alpha});
    case FusedKind::gelu: return nd.LeakyReLU(x, {.act_type = LeakyType::gelu});
    case FusedKind::abs: return nd.abs(x);
    case FusedKind::square: return nd.square(x);
    case FusedKind::sqrt: return nd.sqrt(x);
    case FusedKind::exp: return nd.exp(x);
  }
  return x;
}

std::vector<const NDArray*> inputs_of(const ComposeContext& c) {
  std::vector<const NDArray*> all;
  for (int i = 0; i < c.num_inputs(); ++i) all.push_back(&c.input(i));
  return all;
}

void set_all(ComposeContext& c, std::vector<NDArray> results) {
  for (size_t i = 0; i < results.size(); ++i) c.set(int(i), std::move(results[i]));
}

// Of levels: with a calibrated range uint8 if results are never negative, else int8; int32 without.
template <class Op>
DType result_dtype(const Op& op, bool is_unsigned) {
  if (!op.min_calib_range || !op.max_calib_range) return DType::int32;
  return is_unsigned ? DType::uint8 : DType::int8;
}

// Of a result without elements: the weights are not looked at.
template <class Op>
void put_range_of_nothing(const Op& op, KernelContext& c) {
  if (c.out().dtype == DType::float32) return;
  const bool is_calibrated = c.out().dtype != DType::int32;
  put_number(c, 1, is_calibrated ? *op.min_calib_range : 0);
  put_number(c, 2, is_calibrated ? *op.max_calib_range : 0);
}

// Fills finish.scale, finish.unit and the range of the result. `scales`: of the weights, by filter.
template <class Op>
void set_scales(const Op& op, KernelContext& c, float data_scale, const std::vector<float>& scales, float level,
                LayerFinish& finish) {
  const auto n = scales.size();
  auto* const scale = static_cast<float*>(c.run.workspace(n * 4));
  const bool in_units = !is_homogeneous(finish.act);
  if (c.out().dtype == DType::int32) {
    finish.unit = data_scale * scales[0];
    if (in_units) {
      for (size_t o = 0; o < n; ++o) scale[o] = 1 / finish.unit;
      finish.scale = scale;
    }
    return put_sum_range(c, level);
  }
  if (c.out().dtype != DType::float32) {
    const float min = *op.min_calib_range, max = *op.max_calib_range;
    finish.unit = levels_per_unit(level_count(c.out().dtype), magnitude(min, max));
    put_number(c, 1, min);
    put_number(c, 2, max);
  }
  for (size_t o = 0; o < n; ++o) scale[o] = (in_units ? 1 : finish.unit) / data_scale / scales[o];
  finish.scale = scale;
}

}  // namespace

template <FusedPart P>
constinit const OpDef op::FusedConvOp<P>::def = make_op_def<op::FusedConvOp<P>>();
template <FusedPart P>
constinit const OpDef op::FusedFullyConnectedOp<P>::def = make_op_def<op::FusedFullyConnectedOp<P>>();

template <FusedPart P>
void op::FusedConvOp<P>::infer(InferContext& c) const {
  if (P == FusedPart::kernel && !quantized) c.fail_value("is for quantised arrays");
  if (!with_sum && postsum_act != FusedKind::none) c.fail_value("an activation after a sum needs with_sum");
  if (quantized) expect_dtype(c, 0, {DType::int8, DType::uint8});
  const DType real = quantized ? DType::float32 : c.dtype();
  const Shape out = layer_shape(c, convolution_of(*this), norm_at(), real);
  for (int i = norm_at(); with_bn && i < sum_at(); ++i) c.expect_input(i, Shape(num_filter), real);
  if (with_sum) {
    const bool is_known = c.shape(sum_at()).ndim() >= 0;
    c.expect_input(sum_at(), out, !quantized ? real : is_known ? c.dtype(sum_at()) : DType::int8);
    if (quantized) expect_dtype(c, sum_at(), {DType::int8, DType::uint8});
  }
  if (!quantized) {
    c.expect_floating();
    return c.set_output(out, real);
  }
  expect_range(c, ranges_at());
  if (with_sum) expect_range(c, ranges_at() + 2);
  const bool is_unsigned = with_sum ? is_nonnegative(postsum_act) : is_nonnegative(act);
  c.set_output(0, out, result_dtype(*this, is_unsigned));
  set_range(c);
}

template <FusedPart P>
void op::FusedConvOp<P>::compose(ComposeContext& c) const requires(P == FusedPart::file) {
  if (quantized) {
    return set_all(c, nd._fused_quantized_conv(inputs_of(c), same_attributes<FusedQuantizedConv>(*this)));
  }
  const op::Convolution layer = convolution_of(*this);
  NDArray y = no_bias ? nd.Convolution(c.input(0), c.input(1), layer)
                      : nd.Convolution(c.input(0), c.input(1), c.input(bias_at()), layer);
  if (with_bn) {
    const int at = norm_at();
    y = nd.BatchNorm(y, c.input(at), c.input(at + 1), c.input(at + 2), c.input(at + 3),
                     {.eps = eps, .fix_gamma = fix_gamma, .use_global_stats = true});
  }
  y = activated(y, act, act_alpha);
  if (with_sum) y = activated(nd.broadcast_add(y, c.input(sum_at())), postsum_act, postsum_alpha);
  c.set(y);
}

template <FusedPart P>
double op::FusedConvOp<P>::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const
    requires(P == FusedPart::kernel) {
  return sum_flops(inputs, outputs);
}
template <FusedPart P>
bool op::FusedConvOp<P>::keeps_rows(const RowQuery& q) const requires(P == FusedPart::kernel) {
  return q.has_rows(0) && q.count() == 1 + int(with_sum) && (!with_sum || q.has_rows(sum_at()));
}

void run_cpu(const op::FusedQuantizedConv& op, KernelContext& c) {
  const auto floats = [&](int i) { return c.in(i).as<const float>(); };
  const DType data = c.in(0).dtype;
  const float data_range = usable_range(c, op.ranges_at(), data);
  if (c.out().size() == 0) return put_range_of_nothing(op, c);
  LayerParameters p{
      .eps = op.eps, .data_scale = level_count(data) / data_range, .is_channelwise = c.out().dtype != DType::int32};
  if (!op.no_bias) p.bias = floats(op.bias_at());
  if (op.with_bn) {
    const int at = op.norm_at();
    p.gamma = op.fix_gamma ? nullptr : floats(at);
    p.beta = floats(at + 1), p.mean = floats(at + 2), p.var = floats(at + 3);
  }
  const auto set = int8_conv_set(c, geometry_of(op, c), data == DType::int8);
  const auto weights = quantized_weights(c, *set, floats(1), p);
  LayerFinish finish;
  finish.act = op.act, finish.act_alpha = op.act_alpha;
  finish.postsum = op.postsum_act, finish.postsum_alpha = op.postsum_alpha;
  if (!weights->bias.empty()) finish.bias = weights->bias.data();
  set_scales(op, c, p.data_scale, weights->scales, sum_level(data, data_range, weights->range), finish);
  if (op.with_sum) {
    const TensorView& sum = c.in(op.sum_at());
    finish.addend = &sum;
    finish.addend_scale = finish.unit / (level_count(sum.dtype) / usable_range(c, op.ranges_at() + 2, sum.dtype));
  }
  run_layer(c, *set, *weights, false, finish);
}

template <FusedPart P>
void op::FusedFullyConnectedOp<P>::infer(InferContext& c) const {
  if (P == FusedPart::kernel && !quantized) c.fail_value("is for quantised arrays");
  if (!quantized && (enable_float_output || channel_wise_quantize)) {
    c.fail_value("enable_float_output and channel_wise_quantize need quantized");
  }
  const auto layer = dense_of(num_hidden, no_bias, flatten);
  if (!quantized) {
    c.expect_floating();
    return c.set_output(layer_shape(c, layer, ranges_at(), c.dtype()), c.dtype());
  }
  expect_dtype(c, 0, {DType::int8, DType::uint8});
  const Shape out = layer_shape(c, layer, ranges_at(), channel_wise_quantize ? DType::float32 : DType::int8);
  for (int i = ranges_at(); i < num_inputs(); i += 2) expect_range(c, i);
  if (enable_float_output) return c.set_output(out, DType::float32);
  c.set_output(0, out, result_dtype(*this, is_nonnegative(act)));
  set_range(c);
}

template <FusedPart P>
void op::FusedFullyConnectedOp<P>::compose(ComposeContext& c) const requires(P == FusedPart::file) {
  if (quantized) {
    return set_all(
        c, nd._fused_quantized_fully_connected(inputs_of(c), same_attributes<FusedQuantizedFullyConnected>(*this)));
  }
  const auto layer = dense_of(num_hidden, no_bias, flatten);
  c.set(activated(no_bias ? nd.FullyConnected(c.input(0), c.input(1), layer)
                          : nd.FullyConnected(c.input(0), c.input(1), c.input(2), layer),
                  act, act_alpha));
}

template <FusedPart P>
double op::FusedFullyConnectedOp<P>::flops(std::span<const TensorMeta> inputs,
                                           std::span<const TensorMeta> outputs) const requires(P == FusedPart::kernel) {
  return sum_flops(inputs, outputs);
}
template <FusedPart P>
bool op::FusedFullyConnectedOp<P>::keeps_rows(const RowQuery& q) const requires(P == FusedPart::kernel) {
  return q.only_first_has_rows() && q.ndim() >= 2;
}

void run_cpu(const op::FusedQuantizedFullyConnected& op, KernelContext& c) {
  const DType data = c.in(0).dtype;
  const int ranges = op.ranges_at();
  if (c.out().size() == 0) return put_range_of_nothing(op, c);
  const ConvGeometry g = dense_geometry(c);
  const float data_range = usable_range(c, ranges, data), data_scale = level_count(data) / data_range;
  const auto set = int8_conv_set(c, g, data == DType::int8);
  LayerFinish finish;
  finish.act = op.act, finish.act_alpha = op.act_alpha;
  std::shared_ptr<const LayerWeights> weights;
  std::vector<float> scales;
  float weight_range = 0;
  if (op.channel_wise_quantize) {
    LayerParameters p{.data_scale = data_scale, .is_channelwise = c.out().dtype != DType::int32};
    if (!op.no_bias) p.bias = c.in(2).as<const float>();
    weights = quantized_weights(c, *set, c.in(1).as<const float>(), p);
    scales = weights->scales, weight_range = weights->range;
    if (!op.no_bias) finish.bias = weights->bias.data();
  } else {
    weights = packed_weights(c, *set, c.in(1).as<const int8_t>());
    weight_range = usable_range(c, ranges + 2, DType::int8);
    const float scale = level_count(DType::int8) / weight_range;
    scales.assign(size_t(g.out_channels), scale);
    if (!op.no_bias) {
      auto* const bias = static_cast<int32_t*>(c.run.workspace(size_t(g.out_channels) * 4));
      const float rescale = data_scale * scale * range_at(c, ranges + 4) / level_count(DType::int8);
      for (int64_t o = 0; o < g.out_channels; ++o) {
        bias[o] = nearest_level<int32_t>(float(c.in(2).as<const int8_t>()[o]) * rescale);
      }
      finish.bias = bias;
    }
  }
  set_scales(op, c, data_scale, scales, sum_level(data, data_range, weight_range), finish);
  run_layer(c, *set, *weights, true, finish);
}

template struct op::FusedConvOp<FusedPart::file>;
template struct op::FusedConvOp<FusedPart::kernel>;
template struct op::FusedFullyConnectedOp<FusedPart::file>;
template struct op::FusedFullyConnectedOp<FusedPart::kernel>;

}  // namespace kaon
