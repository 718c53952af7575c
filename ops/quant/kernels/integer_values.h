// Levels of other tools' quantised nets outside layers: q stands for scale (q - zero), in float32. Exist in converted
// nets only. No gradients.
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

namespace op {
// data (float32) divided by the scale, rounded to nearest even, moved by `zero`; beyond the last level that one, NaN
// gives 0. Of int8 or uint8.
struct IntegerQuantize {
  double scale = 1;
  int zero = 0;
  DType out_type = DType::uint8;
  static constexpr OpTraits traits{
      .name = "_integer_quantize", .any_layout = true, .recomputable = true, .in_mxnet = false, .flat = true};
  static constexpr void fields(auto field) {
    field("scale", &IntegerQuantize::scale);
    field("zero", &IntegerQuantize::zero);
    field("out_type", &IntegerQuantize::out_type);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 1; }
};

// The numbers of levels of int8 or uint8, in float32.
struct IntegerDequantize {
  double scale = 1;
  int zero = 0;
  static constexpr OpTraits traits{
      .name = "_integer_dequantize", .any_layout = true, .recomputable = true, .in_mxnet = false, .flat = true};
  static constexpr void fields(auto field) {
    field("scale", &IntegerDequantize::scale);
    field("zero", &IntegerDequantize::zero);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 1; }
};

// The sum of the numbers of two arrays of levels of one shape, with relu at least 0, as levels, each step rounded by
// itself.
struct IntegerAdd {
  double lhs_scale = 1, rhs_scale = 1, scale = 1;
  int lhs_zero = 0, rhs_zero = 0, zero = 0;
  bool relu = false;
  DType out_type = DType::uint8;
  static constexpr OpTraits traits{.name = "_integer_add",
                                   .inputs = ops::Names("lhs", "rhs"),
                                   .any_layout = true,
                                   .recomputable = true,
                                   .in_mxnet = false,
                                   .flat = true};
  static constexpr void fields(auto field) {
    field("lhs_scale", &IntegerAdd::lhs_scale);
    field("rhs_scale", &IntegerAdd::rhs_scale);
    field("scale", &IntegerAdd::scale);
    field("lhs_zero", &IntegerAdd::lhs_zero);
    field("rhs_zero", &IntegerAdd::rhs_zero);
    field("zero", &IntegerAdd::zero);
    field("relu", &IntegerAdd::relu);
    field("out_type", &IntegerAdd::out_type);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && q.ndim() >= 1; }
};

// The largest level under each window of two axes, each of which must reach the data.
struct IntegerMaxPool {
  Shape kernel{};
  Shape stride{};
  Shape pad{};
  static constexpr OpTraits traits{
      .name = "_integer_max_pool", .any_layout = true, .recomputable = true, .in_mxnet = false, .flat = true};
  static constexpr void fields(auto field) {
    field("kernel", &IntegerMaxPool::kernel, true);
    field("stride", &IntegerMaxPool::stride);
    field("pad", &IntegerMaxPool::pad);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  ops::ImageUse image_use() const { return {.inputs = 1, .outputs = 1, .levels = true, .prefers_channels_last = true}; }
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2; }
};
}  // namespace op
void run_cpu(const op::IntegerQuantize& op, KernelContext& c);
void run_cuda(const op::IntegerQuantize& op, KernelContext& c);
void run_cpu(const op::IntegerDequantize& op, KernelContext& c);
void run_cuda(const op::IntegerDequantize& op, KernelContext& c);
void run_cpu(const op::IntegerAdd& op, KernelContext& c);
void run_cuda(const op::IntegerAdd& op, KernelContext& c);
void run_cpu(const op::IntegerMaxPool& op, KernelContext& c);
void run_cuda(const op::IntegerMaxPool& op, KernelContext& c);

}  // namespace kaon
