// What shape inference of quantised operators shares.
#pragma once

#include <fmt/format.h>

#include <initializer_list>

#include "kaon/ops/quant/quant.h"

namespace kaon::ops {

// Throws TypeError unless input i is of one of these dtypes.
void expect_dtype(const InferContext& c, int i, std::initializer_list<DType> allowed);
// Inputs i and i + 1 are a minimum and a maximum: (1,) of float32.
void expect_range(InferContext& c, int i);
// Outputs i and i + 1, likewise.
void set_range(InferContext& c, int i = 1);
// The dtype of levels that `type` means; automatic is int8 without a calibrated range.
DType level_dtype(QuantType type, const std::optional<float>& min, const std::optional<float>& max);

// The shape of the result of `layer`, an operator of float32, for inputs of these shapes; those that are unknown are
// filled, with `dtype` all but the first. Errors name the operator of `c`.
template <class Op>
Shape layer_shape(InferContext& c, const Op& layer, int inputs, DType dtype) {
  if constexpr (requires { layer.layout; }) {
    if (is_channels_last(layer.layout)) {
      c.fail_value(fmt::format("layout must have the channels second, got {}", to_text(*layer.layout)));
    }
  }
  TensorMeta metas[3], out;
  TensorMeta* pointers[3];
  for (int i = 0; i < inputs; ++i) metas[i] = {c.shape(i), DType::float32}, pointers[i] = &metas[i];
  InferContext inner(c.op(), Op::traits, std::span(pointers, size_t(inputs)), std::span(&out, 1));
  layer.infer(inner);
  for (int i = 1; i < inputs; ++i) c.expect_input(i, metas[i].shape, dtype);
  return out.shape;
}

// Attributes that layers here have in common with those of float32.
template <class Op>
op::Convolution convolution_of(const Op& op) {
  return {.kernel = op.kernel,
          .stride = op.stride,
          .dilate = op.dilate,
          .pad = op.pad,
          .num_filter = op.num_filter,
          .num_group = op.num_group,
          .no_bias = op.no_bias,
          .layout = op.layout};
}

}  // namespace kaon::ops
