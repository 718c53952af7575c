// Layers of whole numbers as other tools quantise them: levels q stand for scale (q - zero), and no range travels
// beside them. Exist in converted nets only. No gradients.
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

namespace ops {
// bias: int32 (filters,), what the zero points make of it included. scale: float32 (filters,), of a level of the result
// or of 1.
inline constexpr Names integer_layer_inputs("data", "weight", "bias", "scale");
}  // namespace ops

namespace op {
// Sums of products of data (int8 or uint8) and weights (int8), exact in int32, and the bias. In int32 these are the
// result, which the scale does not concern; in float32 they are multiplied with the scale; in int8 and uint8 rounded to
// nearest even besides, moved by `zero`, and those beyond the last level get it. relu: the result is at least 0, before
// it is moved. Padding is levels of 0.
struct IntegerConv {
  Shape kernel{};
  Shape stride{};
  Shape dilate{};
  Shape pad{};
  int num_filter = 0;
  int num_group = 1;
  DType out_type = DType::float32;
  int zero = 0;
  bool relu = false;
  static constexpr OpTraits traits{.name = "_integer_conv",
                                   .inputs = ops::integer_layer_inputs,
                                   .any_layout = true,
                                   .in_mxnet = false,
                                   .flat = true};
  static constexpr void fields(auto field) {
    field("kernel", &IntegerConv::kernel, true);
    field("stride", &IntegerConv::stride);
    field("dilate", &IntegerConv::dilate);
    field("pad", &IntegerConv::pad);
    field("num_filter", &IntegerConv::num_filter, true);
    field("num_group", &IntegerConv::num_group);
    field("out_type", &IntegerConv::out_type);
    field("zero", &IntegerConv::zero);
    field("relu", &IntegerConv::relu);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
  ops::ImageUse image_use() const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2; }
};

// The same of data (..., k) with weights (filters, k).
struct IntegerDense {
  int num_hidden = 0;
  DType out_type = DType::float32;
  int zero = 0;
  bool relu = false;
  static constexpr OpTraits traits{
      .name = "_integer_dense", .inputs = ops::integer_layer_inputs, .in_mxnet = false, .flat = true};
  static constexpr void fields(auto field) {
    field("num_hidden", &IntegerDense::num_hidden, true);
    field("out_type", &IntegerDense::out_type);
    field("zero", &IntegerDense::zero);
    field("relu", &IntegerDense::relu);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2; }
};
}  // namespace op
void run_cpu(const op::IntegerConv& op, KernelContext& c);
void run_cuda(const op::IntegerConv& op, KernelContext& c);
void run_cpu(const op::IntegerDense& op, KernelContext& c);
void run_cuda(const op::IntegerDense& op, KernelContext& c);

}  // namespace kaon
