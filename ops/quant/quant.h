// Quantised arrays: numbers as multiples of a step, in int8 or uint8. The range of an array travels beside it, as two
// arrays (1,) of float32; with r its larger absolute value, level q is the number q r / 127.5, in uint8 q r / 255.5,
// and in int32 q r / (2^31 - 1), as in MXNet 1.9.1. Numbers become levels by rounding to nearest even; those beyond the
// last level get it, NaN gets 0. A range of 0 has the number 0 alone. No gradients.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/nn/activation/activation.h"
#include "kaon/ops/nn/conv/conv.h"
#include "kaon/ops/nn/pooling/pooling.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// automatic: uint8 where the calibrated range has no negative numbers, else int8.
enum class QuantType : uint8_t { automatic, int8, uint8 };
constexpr std::array<std::string_view, 3> enum_names(QuantType) { return {"auto", "int8", "uint8"}; }

namespace op {
// --- Numbers to levels and back.

// Levels of data (float32) for the given range, and that range; int8 makes it symmetric. One level is r / 127, or
// r / 255 in uint8.
struct Quantize {
  QuantType out_type = QuantType::uint8;
  static constexpr OpTraits traits{.name = "_contrib_quantize",
                                   .inputs = Names("data", "min_range", "max_range"),
                                   .outputs = 3,
                                   .infers = bit(1) | bit(2),
                                   .flat = true};
  static constexpr void fields(auto field) { field("out_type", &Quantize::out_type); }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// Levels of data (float32) for the calibrated range, or for that of the data where a bound is not given; and that
// range, which int8 makes symmetric. int8 and uint8 pass as they are, with the calibrated range or all levels'. A NaN
// makes the range of the data NaN.
struct QuantizeV2 {
  QuantType out_type = QuantType::int8;
  std::optional<float> min_calib_range{};
  std::optional<float> max_calib_range{};
  static constexpr OpTraits traits{.name = "_contrib_quantize_v2", .outputs = 3, .flat = true};
  static constexpr void fields(auto field) {
    field("out_type", &QuantizeV2::out_type);
    field("min_calib_range", &QuantizeV2::min_calib_range);
    field("max_calib_range", &QuantizeV2::max_calib_range);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// floor(scale x + shift + 1/2) in uint8, with scale = 255 / (max - min) and shift = 255 - scale max of the calibrated
// range, or of the data's (float32) where a bound is not given; scale and shift (1,).
struct QuantizeAsym {
  std::optional<float> min_calib_range{};
  std::optional<float> max_calib_range{};
  static constexpr OpTraits traits{.name = "_contrib_quantize_asym", .outputs = 3, .flat = true};
  static constexpr void fields(auto field) {
    field("min_calib_range", &QuantizeAsym::min_calib_range);
    field("max_calib_range", &QuantizeAsym::max_calib_range);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The numbers of levels of int8, uint8 or int32, in float32.
struct Dequantize {
  DType out_type = DType::float32;
  static constexpr OpTraits traits{.name = "_contrib_dequantize",
                                   .inputs = Names("data", "min_range", "max_range"),
                                   .infers = bit(1) | bit(2),
                                   .flat = true};
  static constexpr void fields(auto field) { field("out_type", &Dequantize::out_type); }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows(); }
};

// Levels of int32 as ones of int8 or uint8, for the calibrated range or that of the data where a bound is not given:
// the range is -r to r, or 0 to r, and a level r / 127 or r / 255.
struct Requantize {
  QuantType out_type = QuantType::int8;
  std::optional<float> min_calib_range{};
  std::optional<float> max_calib_range{};
  static constexpr OpTraits traits{.name = "_contrib_requantize",
                                   .inputs = Names("data", "min_range", "max_range"),
                                   .outputs = 3,
                                   .infers = bit(1) | bit(2),
                                   .flat = true};
  static constexpr void fields(auto field) {
    field("out_type", &Requantize::out_type);
    field("min_calib_range", &Requantize::min_calib_range);
    field("max_calib_range", &Requantize::max_calib_range);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// From a histogram (n,) of numbers and its edges (n + 1,), n odd, float32: the bound of |x| for which the histogram
// within it, the rest in its first and last bin, differs least from itself in num_quantized_bins levels, by the
// Kullback-Leibler divergence; and that divergence. Where no bound has one, the first and the largest float.
struct CalibrateEntropy {
  int num_quantized_bins = 255;
  static constexpr OpTraits traits{
      .name = "_contrib_calibrate_entropy", .inputs = Names("hist", "hist_edges"), .outputs = 2, .flat = true};
  static constexpr void fields(auto field) { field("num_quantized_bins", &CalibrateEntropy::num_quantized_bins); }
  static const OpDef def;
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::Quantize& op, KernelContext& c);
void run_cuda(const op::Quantize& op, KernelContext& c);
void run_cpu(const op::QuantizeV2& op, KernelContext& c);
void run_cuda(const op::QuantizeV2& op, KernelContext& c);
void run_cpu(const op::QuantizeAsym& op, KernelContext& c);
void run_cuda(const op::QuantizeAsym& op, KernelContext& c);
void run_cpu(const op::Dequantize& op, KernelContext& c);
void run_cuda(const op::Dequantize& op, KernelContext& c);
void run_cpu(const op::Requantize& op, KernelContext& c);
void run_cuda(const op::Requantize& op, KernelContext& c);
void run_cpu(const op::CalibrateEntropy& op, KernelContext& c);

// --- Operators of levels: their results are data and its range, min and max.

namespace op {
// relu: levels below 0 become 0. Other activations are refused, as in MXNet.
struct QuantizedAct {
  ActivationType act_type = ActivationType::relu;
  static constexpr OpTraits traits{.name = "_contrib_quantized_act",
                                   .inputs = Names("data", "min_data", "max_data"),
                                   .outputs = 3,
                                   .infers = bit(1) | bit(2)};
  static constexpr void fields(auto field) { field("act_type", &QuantizedAct::act_type, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// data (n, ...) as (n, everything else).
struct QuantizedFlatten {
  static constexpr OpTraits traits{.name = "_contrib_quantized_flatten",
                                   .inputs = Names("data", "min_data", "max_data"),
                                   .outputs = 3,
                                   .infers = bit(1) | bit(2)};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Rows of int8 weights, as Embedding takes them.
struct QuantizedEmbedding {
  int input_dim = 0;
  int output_dim = 0;
  DType dtype = DType::float32;  // of MXNet's front end alone
  bool sparse_grad = false;
  static constexpr OpTraits traits{.name = "_contrib_quantized_embedding",
                                   .inputs = Names("data", "weight", "min_weight", "max_weight"),
                                   .outputs = 3,
                                   .infers = bit(1) | bit(2) | bit(3)};
  static constexpr void fields(auto field) {
    field("input_dim", &QuantizedEmbedding::input_dim, true);
    field("output_dim", &QuantizedEmbedding::output_dim, true);
    field("dtype", &QuantizedEmbedding::dtype);
    field("sparse_grad", &QuantizedEmbedding::sparse_grad);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// num_args arrays, then the minimum and maximum of each: one after the other along axis dim, in the smallest range that
// holds all and 0; uint8 where all are, else int8.
struct QuantizedConcat {
  int num_args = 0;  // number of arrays; set by the call
  int dim = 1;
  static constexpr OpTraits traits{
      .name = "_contrib_quantized_concat", .inputs = Names("arg"), .outputs = 3, .variadic = true, .flat = true};
  static constexpr void fields(auto field) {
    field("num_args", &QuantizedConcat::num_args, true);
    field("dim", &QuantizedConcat::dim);
  }
  static const OpDef def;
  int num_inputs() const { return num_args > 0 ? 3 * num_args : 3; }
  void infer(InferContext& c) const;
};

// The sum of two arrays of one shape. With a calibrated range in uint8 where both are, else int8; without in int32, for
// the sum of both ranges. Where the dtypes differ, the uint8 one is rounded to levels of the result first, as in MXNet.
struct QuantizedElemwiseAdd {
  std::optional<float> min_calib_range{};
  std::optional<float> max_calib_range{};
  static constexpr OpTraits traits{.name = "_contrib_quantized_elemwise_add",
                                   .inputs = Names("lhs", "rhs", "lhs_min", "lhs_max", "rhs_min", "rhs_max"),
                                   .outputs = 3,
                                   .infers = bit(2) | bit(3) | bit(4) | bit(5),
                                   .flat = true};
  static constexpr void fields(auto field) {
    field("min_calib_range", &QuantizedElemwiseAdd::min_calib_range);
    field("max_calib_range", &QuantizedElemwiseAdd::max_calib_range);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// The product of two arrays of int8 and of one shape. With a calibrated range in int8, rounded towards 0, as in MXNet;
// without in int32; or one output of float32.
struct QuantizedElemwiseMul {
  std::optional<float> min_calib_range{};
  std::optional<float> max_calib_range{};
  bool enable_float_output = false;
  static constexpr OpTraits traits{.name = "_contrib_quantized_elemwise_mul",
                                   .inputs = Names("lhs", "rhs", "lhs_min", "lhs_max", "rhs_min", "rhs_max"),
                                   .outputs = 3,
                                   .infers = bit(2) | bit(3) | bit(4) | bit(5),
                                   .flat = true};
  static constexpr void fields(auto field) {
    field("min_calib_range", &QuantizedElemwiseMul::min_calib_range);
    field("max_calib_range", &QuantizedElemwiseMul::max_calib_range);
    field("enable_float_output", &QuantizedElemwiseMul::enable_float_output);
  }
  static const OpDef def;
  int num_outputs() const { return enable_float_output ? 1 : 3; }
  void infer(InferContext& c) const;
};

// gamma (x - mean) / sqrt(var + eps) + beta per index of axis 1, by the running statistics, in int8 for the calibrated
// range, which must be given. gamma counts whatever fix_gamma says, and the slope is divided by sqrt(1 + eps) once
// more, as in MXNet.
struct QuantizedBatchNorm {
  double eps = 1e-3f;
  float momentum = 0.9f;
  bool fix_gamma = true;
  bool use_global_stats = false;
  bool output_mean_var = false;
  int axis = 1;
  bool cudnn_off = false;
  std::optional<float> min_calib_range{};
  std::optional<float> max_calib_range{};
  static constexpr OpTraits traits{
      .name = "_contrib_quantized_batch_norm",
      .inputs = Names("data", "gamma", "beta", "moving_mean", "moving_var", "min_data", "max_data"),
      .outputs = 3,
      .infers = bit(1) | bit(2) | bit(3) | bit(4) | bit(5) | bit(6),
      .flat = true};
  static constexpr void fields(auto field) {
    field("eps", &QuantizedBatchNorm::eps);
    field("momentum", &QuantizedBatchNorm::momentum);
    field("fix_gamma", &QuantizedBatchNorm::fix_gamma);
    field("use_global_stats", &QuantizedBatchNorm::use_global_stats);
    field("output_mean_var", &QuantizedBatchNorm::output_mean_var);
    field("axis", &QuantizedBatchNorm::axis);
    field("cudnn_off", &QuantizedBatchNorm::cudnn_off);
    field("min_calib_range", &QuantizedBatchNorm::min_calib_range);
    field("max_calib_range", &QuantizedBatchNorm::max_calib_range);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2; }
};

// Maximum or mean over windows, as Pooling; a mean is rounded to nearest even. Two spatial axes.
struct QuantizedPooling {
  Shape kernel{};
  PoolType pool_type = PoolType::max;
  bool global_pool = false;
  bool cudnn_off = false;
  PoolingConvention pooling_convention = PoolingConvention::valid;
  Shape stride{};
  Shape pad{};
  std::optional<int> p_value{};
  std::optional<bool> count_include_pad{};
  std::optional<ConvLayout> layout{};
  static constexpr OpTraits traits{.name = "_contrib_quantized_pooling",
                                   .inputs = Names("data", "min_data", "max_data"),
                                   .outputs = 3,
                                   .infers = bit(1) | bit(2),
                                   .flat = true};
  static constexpr void fields(auto field) {
    field("kernel", &QuantizedPooling::kernel);
    field("pool_type", &QuantizedPooling::pool_type);
    field("global_pool", &QuantizedPooling::global_pool);
    field("cudnn_off", &QuantizedPooling::cudnn_off);
    field("pooling_convention", &QuantizedPooling::pooling_convention);
    field("stride", &QuantizedPooling::stride);
    field("pad", &QuantizedPooling::pad);
    field("p_value", &QuantizedPooling::p_value);
    field("count_include_pad", &QuantizedPooling::count_include_pad);
    field("layout", &QuantizedPooling::layout);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2; }
};
}  // namespace op
void run_cpu(const op::QuantizedConcat& op, KernelContext& c);
void run_cuda(const op::QuantizedConcat& op, KernelContext& c);
void run_cpu(const op::QuantizedElemwiseAdd& op, KernelContext& c);
void run_cuda(const op::QuantizedElemwiseAdd& op, KernelContext& c);
void run_cpu(const op::QuantizedElemwiseMul& op, KernelContext& c);
void run_cuda(const op::QuantizedElemwiseMul& op, KernelContext& c);
void run_cpu(const op::QuantizedBatchNorm& op, KernelContext& c);
void run_cuda(const op::QuantizedBatchNorm& op, KernelContext& c);
void run_cpu(const op::QuantizedPooling& op, KernelContext& c);
void run_cuda(const op::QuantizedPooling& op, KernelContext& c);

// --- Layers of levels. Their sums of products are exact, in int32.

namespace ops {
// Without a bias its three are missing.
inline constexpr Names quantized_layer_inputs("data", "weight", "bias", "min_data", "max_data", "min_weight",
                                              "max_weight", "min_bias", "max_bias");
}  // namespace ops

namespace op {
// Convolution of data (int8 or uint8) with weights (int8): the sums of products, with the bias (int8, which has a range
// of its own) rounded towards 0 to their levels, in int32. Inputs: data, weight, bias, then the minimum and maximum of
// each. One and two spatial axes, or three.
struct QuantizedConv {
  Shape kernel{};
  Shape stride{};
  Shape dilate{};
  Shape pad{};
  int num_filter = 0;
  int num_group = 1;
  int64_t workspace = 1024;
  bool no_bias = false;
  std::optional<CudnnTune> cudnn_tune{};
  bool cudnn_off = false;
  std::optional<ConvLayout> layout{};
  static constexpr OpTraits traits{.name = "_contrib_quantized_conv",
                                   .inputs = ops::quantized_layer_inputs,
                                   .outputs = 3,
                                   .infers = 0x1fe,
                                   .flat = true};
  static constexpr void fields(auto field) {
    field("kernel", &QuantizedConv::kernel, true);
    field("stride", &QuantizedConv::stride);
    field("dilate", &QuantizedConv::dilate);
    field("pad", &QuantizedConv::pad);
    field("num_filter", &QuantizedConv::num_filter, true);
    field("num_group", &QuantizedConv::num_group);
    field("workspace", &QuantizedConv::workspace);
    field("no_bias", &QuantizedConv::no_bias);
    field("cudnn_tune", &QuantizedConv::cudnn_tune);
    field("cudnn_off", &QuantizedConv::cudnn_off);
    field("layout", &QuantizedConv::layout);
  }
  static const OpDef def;
  int num_inputs() const { return no_bias ? 6 : 9; }
  void infer(InferContext& c) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2; }
};

// The dense layer, likewise.
struct QuantizedFullyConnected {
  int num_hidden = 0;
  bool no_bias = false;
  bool flatten = true;
  static constexpr OpTraits traits{.name = "_contrib_quantized_fully_connected",
                                   .inputs = ops::quantized_layer_inputs,
                                   .outputs = 3,
                                   .infers = 0x1fe,
                                   .flat = true};
  static constexpr void fields(auto field) {
    field("num_hidden", &QuantizedFullyConnected::num_hidden, true);
    field("no_bias", &QuantizedFullyConnected::no_bias);
    field("flatten", &QuantizedFullyConnected::flatten);
  }
  static const OpDef def;
  int num_inputs() const { return no_bias ? 6 : 9; }
  void infer(InferContext& c) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2; }
};
}  // namespace op
void run_cpu(const op::QuantizedConv& op, KernelContext& c);
void run_cuda(const op::QuantizedConv& op, KernelContext& c);
void run_cpu(const op::QuantizedFullyConnected& op, KernelContext& c);
void run_cuda(const op::QuantizedFullyConnected& op, KernelContext& c);

// --- Layers that MXNet's pass for oneDNN has fused, from files: each holds the graph that it stands for, whose
// attributes are among its own here. They predict only.

// What a layer may do to its result. clip is to [0, alpha], leaky multiplies negative numbers by alpha.
enum class FusedKind : uint8_t { none, relu, sigmoid, softrelu, tanh, clip, leaky, gelu, abs, square, sqrt, exp };
constexpr std::array<std::string_view, 12> enum_names(FusedKind) {
  return {"none", "relu", "sigmoid", "softrelu", "tanh", "clip", "leaky", "gelu", "abs", "square", "sqrt", "exp"};
}

namespace ops {
// `file`: as files have it, made of others. `kernel`: its form for quantised arrays.
enum class FusedPart { file, kernel };

constexpr OpTraits fused_traits(std::string_view file_name, std::string_view kernel_name, FusedPart part) {
  OpTraits traits{.name = part == FusedPart::file ? file_name : kernel_name,
                  .inputs = Names("input"),
                  .outputs = 3,
                  .variadic = true,
                  .infers = 0xfffffffe};
  if (part == FusedPart::kernel) traits.in_mxnet = false, traits.flat = true;
  return traits;
}
}  // namespace ops

namespace op {
// postsum_act(act(BatchNorm(Convolution(data, weight, bias))) + sum). Inputs: data, weight; bias unless no_bias;
// with_bn gamma, beta, mean and variance; with_sum the array that is added; where quantized, the minima and maxima of
// data and of that array. Then data and sum are of int8 or uint8, weight and bias of float32, from which BatchNorm is
// taken away; they become int8 per filter, and int32. The result and its range are for the calibrated range in uint8
// where the activation gives no negative numbers, else int8; without one in int32 for a range that follows, with
// weights of one range. An int8 array that is added to a uint8 result bounds it by 127, as in MXNet.
template <FusedPart P>
struct FusedConvOp {
  bool quantized = false;
  bool with_bn = false;
  bool with_sum = false;
  std::optional<float> min_calib_range{};
  std::optional<float> max_calib_range{};
  Shape kernel{};
  Shape stride{};
  Shape dilate{};
  Shape pad{};
  int num_filter = 0;
  int num_group = 1;
  bool no_bias = false;
  std::optional<ConvLayout> layout{};
  double eps = 1e-3;
  bool fix_gamma = true;
  FusedKind act = FusedKind::none;
  double act_alpha = 0;
  FusedKind postsum_act = FusedKind::none;
  double postsum_alpha = 0;
  static constexpr OpTraits traits = fused_traits("_sg_mkldnn_conv", "_fused_quantized_conv", P);
  static constexpr void fields(auto field) {
    field("quantized", &FusedConvOp::quantized);
    field("with_bn", &FusedConvOp::with_bn);
    field("with_sum", &FusedConvOp::with_sum);
    field("min_calib_range", &FusedConvOp::min_calib_range);
    field("max_calib_range", &FusedConvOp::max_calib_range);
    field("kernel", &FusedConvOp::kernel);
    field("stride", &FusedConvOp::stride);
    field("dilate", &FusedConvOp::dilate);
    field("pad", &FusedConvOp::pad);
    field("num_filter", &FusedConvOp::num_filter);
    field("num_group", &FusedConvOp::num_group);
    field("no_bias", &FusedConvOp::no_bias);
    field("layout", &FusedConvOp::layout);
    field("eps", &FusedConvOp::eps);
    field("fix_gamma", &FusedConvOp::fix_gamma);
    field("act", &FusedConvOp::act);
    field("act_alpha", &FusedConvOp::act_alpha);
    field("postsum_act", &FusedConvOp::postsum_act);
    field("postsum_alpha", &FusedConvOp::postsum_alpha);
  }
  static const OpDef def;
  int bias_at() const { return 2; }
  int norm_at() const { return 3 - int(no_bias); }
  int sum_at() const { return norm_at() + (with_bn ? 4 : 0); }
  int ranges_at() const { return sum_at() + int(with_sum); }
  int num_inputs() const { return ranges_at() + (quantized ? 2 + 2 * int(with_sum) : 0); }
  int num_outputs() const { return quantized ? 3 : 1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const requires(P == FusedPart::file);
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const
      requires(P == FusedPart::kernel);
  bool keeps_rows(const RowQuery& q) const requires(P == FusedPart::kernel);
};
using SgConv = FusedConvOp<FusedPart::file>;
using FusedQuantizedConv = FusedConvOp<FusedPart::kernel>;

// act(FullyConnected(data, weight, bias)). Inputs: data, weight; bias unless no_bias; where quantized, the minima and
// maxima of data and, unless channel_wise_quantize, of weight and bias. Then data is of int8 or uint8, weight and bias
// of int8, or with channel_wise_quantize of float32, which become int8 per row, and int32. The result is for the
// calibrated range, or without one of int32, as of _sg_mkldnn_conv, or one array of float32.
template <FusedPart P>
struct FusedFullyConnectedOp {
  bool quantized = false;
  bool enable_float_output = false;
  bool channel_wise_quantize = false;
  std::optional<float> min_calib_range{};
  std::optional<float> max_calib_range{};
  int num_hidden = 0;
  bool no_bias = false;
  bool flatten = true;
  FusedKind act = FusedKind::none;
  double act_alpha = 0;
  static constexpr OpTraits traits = fused_traits("_sg_mkldnn_fully_connected", "_fused_quantized_fully_connected", P);
  static constexpr void fields(auto field) {
    field("quantized", &FusedFullyConnectedOp::quantized);
    field("enable_float_output", &FusedFullyConnectedOp::enable_float_output);
    field("channel_wise_quantize", &FusedFullyConnectedOp::channel_wise_quantize);
    field("min_calib_range", &FusedFullyConnectedOp::min_calib_range);
    field("max_calib_range", &FusedFullyConnectedOp::max_calib_range);
    field("num_hidden", &FusedFullyConnectedOp::num_hidden);
    field("no_bias", &FusedFullyConnectedOp::no_bias);
    field("flatten", &FusedFullyConnectedOp::flatten);
    field("act", &FusedFullyConnectedOp::act);
    field("act_alpha", &FusedFullyConnectedOp::act_alpha);
  }
  static const OpDef def;
  int ranges_at() const { return 3 - int(no_bias); }
  bool has_weight_ranges() const { return quantized && !channel_wise_quantize; }
  int num_inputs() const {
    return ranges_at() + (quantized ? 2 : 0) + (has_weight_ranges() ? 2 + (no_bias ? 0 : 2) : 0);
  }
  int num_outputs() const { return quantized && !enable_float_output ? 3 : 1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const requires(P == FusedPart::file);
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const
      requires(P == FusedPart::kernel);
  bool keeps_rows(const RowQuery& q) const requires(P == FusedPart::kernel);
};
using SgFullyConnected = FusedFullyConnectedOp<FusedPart::file>;
using FusedQuantizedFullyConnected = FusedFullyConnectedOp<FusedPart::kernel>;

extern template struct FusedConvOp<FusedPart::file>;
extern template struct FusedConvOp<FusedPart::kernel>;
extern template struct FusedFullyConnectedOp<FusedPart::file>;
extern template struct FusedFullyConnectedOp<FusedPart::kernel>;
}  // namespace op
void run_cpu(const op::FusedQuantizedConv& op, KernelContext& c);
void run_cuda(const op::FusedQuantizedConv& op, KernelContext& c);
void run_cpu(const op::FusedQuantizedFullyConnected& op, KernelContext& c);
void run_cuda(const op::FusedQuantizedFullyConnected& op, KernelContext& c);

}  // namespace kaon
