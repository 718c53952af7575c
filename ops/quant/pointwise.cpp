// Operators of levels other than layers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/quant/kernels/quant_infer.h"
#include "kaon/ops/quant/kernels/quant_tiles.h"
#include "kaon/ops/quant/kernels/quant_values.h"
#include "kaon/ops/quant/kernels/ranges.h"

namespace kaon {

using namespace ops;
namespace {

void set_copies(ComposeContext& c, int from) {
  for (int i : {0, 1}) c.set(1 + i, c.input(from + i));
}

// What inference of an operator of two arrays has in common. Returns whether there is a calibrated range.
template <class Op>
bool infer_two(const Op& op, InferContext& c, std::initializer_list<DType> dtypes) {
  for (int i : {0, 1}) expect_dtype(c, i, dtypes);
  c.expect_shape(1, c.shape(0));
  expect_range(c, 2);
  expect_range(c, 4);
  return op.min_calib_range && op.max_calib_range;
}

}  // namespace

// --- quantized_act, quantized_flatten, quantized_embedding

constinit const OpDef op::QuantizedAct::def = make_op_def<op::QuantizedAct>();
constinit const OpDef op::QuantizedFlatten::def = make_op_def<op::QuantizedFlatten>();
constinit const OpDef op::QuantizedEmbedding::def = make_op_def<op::QuantizedEmbedding>();

void op::QuantizedAct::infer(InferContext& c) const {
  if (act_type != ActivationType::relu) c.fail_value(fmt::format("act_type must be relu, got {}", to_text(act_type)));
  expect_dtype(c, 0, {DType::int8, DType::uint8});
  expect_range(c, 1);
  c.set_output(0, c.shape(0), c.dtype());
  set_range(c);
}

void op::QuantizedAct::compose(ComposeContext& c) const {
  c.set(0, nd.maximum(c.input(), 0));
  set_copies(c, 1);
}

void op::QuantizedFlatten::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 1);
  expect_range(c, 1);
  c.set_output(0, Shape(c.shape(0)[0], c.shape(0).product(1, c.shape(0).ndim())), c.dtype());
  set_range(c);
}

void op::QuantizedFlatten::compose(ComposeContext& c) const {
  c.set(0, nd._reshape_to(c.input(), {.shape = c.output(0).shape}));
  set_copies(c, 1);
}

void op::QuantizedEmbedding::infer(InferContext& c) const {
  if (input_dim < 1 || output_dim < 1) {
    c.fail_value(fmt::format("input_dim and output_dim must be at least 1, got {} and {}", input_dim, output_dim));
  }
  c.expect_input(1, Shape(input_dim, output_dim), DType::int8);
  expect_range(c, 2);
  Shape out = c.shape(0);
  if (out.ndim() == Shape::max_ndim) c.fail(fmt::format("data must have at most 7 dimensions, got {}", out.str()));
  out.push_back(output_dim);
  c.set_output(0, out, DType::int8);
  set_range(c);
}

void op::QuantizedEmbedding::compose(ComposeContext& c) const {
  c.set(0,
        nd.Embedding(c.input(0), c.input(1), {.input_dim = input_dim, .output_dim = output_dim, .dtype = DType::int8}));
  set_copies(c, 2);
}

// --- quantized_concat

constinit const OpDef op::QuantizedConcat::def = make_op_def<op::QuantizedConcat>();

void op::QuantizedConcat::infer(InferContext& c) const {
  if (num_args < 1) c.fail_value(fmt::format("num_args must be at least 1, got {}", num_args));
  c.expect_ndim_at_least(0, 1);
  Shape out = c.shape(0);
  const int axis = normalize_axis(dim, out.ndim(), c.op());
  bool is_unsigned = true;
  for (int i = 0; i < num_args; ++i) {
    expect_dtype(c, i, {DType::int8, DType::uint8});
    is_unsigned = is_unsigned && c.dtype(i) == DType::uint8;
    expect_range(c, num_args + 2 * i);
    if (i == 0) continue;
    Shape like = out;
    if (c.shape(i).ndim() == out.ndim()) like[axis] = c.shape(i)[axis];
    c.expect_shape(i, like);
    out[axis] += c.shape(i)[axis];
  }
  c.set_output(0, out, is_unsigned ? DType::uint8 : DType::int8);
  set_range(c);
}

void run_cpu(const op::QuantizedConcat& op, KernelContext& c) {
  const TensorView& out = c.out();
  const int n = op.num_args, axis = op.dim < 0 ? op.dim + out.shape.ndim() : op.dim;
  Bounds range;
  for (int i = 0; i < n; ++i) {
    range.min = std::min(range.min, number_at(c, n + 2 * i));
    range.max = std::max(range.max, number_at(c, n + 2 * i + 1));
  }
  put_number(c, 1, range.min);
  put_number(c, 2, range.max);
  const float per_unit = levels_per_unit(level_count(out.dtype), magnitude(range.min, range.max));
  const int64_t rows = out.shape.product(0, axis), width = out.shape.product(axis, out.shape.ndim());
  int64_t at = 0;
  for (int i = 0; i < n; ++i) {
    const TensorView& in = c.in(i);
    const int64_t own = in.shape.product(axis, out.shape.ndim()), from = at;
    const float own_per_unit = levels_per_unit(level_count(in.dtype), range_at(c, n + 2 * i));
    const bool is_copy = own_per_unit == per_unit && in.dtype == out.dtype;
    const float scale = own_per_unit == 0 ? 0 : per_unit / own_per_unit;
    at += own;
    c.run.parallel_for(rows, std::max<int64_t>(1, 32768 / std::max<int64_t>(own, 1)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const uint8_t* const source = in.as<const uint8_t>() + r * own;
        uint8_t* const target = out.as<uint8_t>() + r * width + from;
        if (is_copy) {
          std::copy_n(source, own, target);
          continue;
        }
        for (int64_t k = 0; k < own; k += int64_t(quant_tile)) {
          const size_t count = std::min(quant_tile, size_t(own - k));
          float tile[quant_tile];
          levels_to_floats(in.dtype, source + k, scale, tile, count);
          floats_to_levels(tile, 1, out.dtype, target + k, count);
        }
      }
    });
  }
}

// --- quantized_elemwise_add

constinit const OpDef op::QuantizedElemwiseAdd::def = make_op_def<op::QuantizedElemwiseAdd>();

void op::QuantizedElemwiseAdd::infer(InferContext& c) const {
  const bool is_calibrated = infer_two(*this, c, {DType::int8, DType::uint8});
  const bool is_unsigned = c.dtype(0) == DType::uint8 && c.dtype(1) == DType::uint8;
  c.set_output(0, c.shape(0), !is_calibrated ? DType::int32 : is_unsigned ? DType::uint8 : DType::int8);
  set_range(c);
}

void run_cpu(const op::QuantizedElemwiseAdd& op, KernelContext& c) {
  const TensorView &lhs = c.in(0), &rhs = c.in(1), &out = c.out();
  const float lhs_range = range_at(c, 2), rhs_range = range_at(c, 4);
  const bool is_calibrated = out.dtype != DType::int32;
  const float calibrated = is_calibrated ? magnitude(*op.min_calib_range, *op.max_calib_range) : 0;
  const SumScales scales =
      SumScales::of(lhs.dtype, rhs.dtype, out.dtype, lhs_range, rhs_range, is_calibrated ? &calibrated : nullptr);
  put_number(c, 1, is_calibrated ? *op.min_calib_range : -(lhs_range + rhs_range));
  put_number(c, 2, is_calibrated ? *op.max_calib_range : lhs_range + rhs_range);
  const bool differ = lhs.dtype != rhs.dtype;
  // the uint8 one of two dtypes becomes int8 first
  const auto widen = [&](const TensorView& in, int64_t i, float scale, float* to, size_t n) {
    levels_to_floats(in.dtype, in.as<const uint8_t>() + i, scale, to, n);
    if (!differ || in.dtype == DType::int8) return;
    int8_t rounded[quant_tile];
    floats_to_levels(to, 1, DType::int8, rounded, n);
    levels_to_floats(DType::int8, rounded, 1, to, n);
  };
  c.run.parallel_for(out.size(), 32768, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += int64_t(quant_tile)) {
      const size_t n = std::min(quant_tile, size_t(end - i));
      if (!differ && is_calibrated) {
        add_levels(out.dtype, lhs.as<const uint8_t>() + i, scales.lhs, rhs.as<const uint8_t>() + i, scales.rhs,
                   out.as<uint8_t>() + i, n);
        continue;
      }
      float sum[quant_tile], other[quant_tile];
      widen(lhs, i, scales.lhs, sum, n);
      widen(rhs, i, scales.rhs, other, n);
      add_scaled(other, 1, false, sum, n);
      floats_to_levels(sum, 1, out.dtype, out.as<char>() + size_t(i) * size_of(out.dtype), n);
    }
  });
}

// --- quantized_elemwise_mul

constinit const OpDef op::QuantizedElemwiseMul::def = make_op_def<op::QuantizedElemwiseMul>();

void op::QuantizedElemwiseMul::infer(InferContext& c) const {
  const bool is_calibrated = infer_two(*this, c, {DType::int8});
  if (enable_float_output) return c.set_output(c.shape(0), DType::float32);
  c.set_output(0, c.shape(0), is_calibrated ? DType::int8 : DType::int32);
  set_range(c);
}

void run_cpu(const op::QuantizedElemwiseMul& op, KernelContext& c) {
  const TensorView& out = c.out();
  const MulScale scale =
      MulScale::of(out.dtype, range_at(c, 2), range_at(c, 4), op.min_calib_range ? *op.min_calib_range : 0,
                   op.max_calib_range ? *op.max_calib_range : 0);
  if (!op.enable_float_output) put_number(c, 1, scale.min), put_number(c, 2, scale.max);
  const int8_t *const a = c.in(0).as<const int8_t>(), *const b = c.in(1).as<const int8_t>();
  c.run.parallel_for(out.size(), 32768, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += int64_t(quant_tile)) {
      const size_t n = std::min(quant_tile, size_t(end - i));
      if (out.dtype == DType::float32) {
        multiply_levels(a + i, b + i, scale.factor, false, out.as<float>() + i, n);
        continue;
      }
      float products[quant_tile];
      multiply_levels(a + i, b + i, scale.factor, true, products, n);
      floats_to_levels(products, 1, out.dtype, out.as<char>() + size_t(i) * size_of(out.dtype), n);
    }
  });
}

// --- quantized_batch_norm

constinit const OpDef op::QuantizedBatchNorm::def = make_op_def<op::QuantizedBatchNorm>();

void op::QuantizedBatchNorm::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 2);
  if (axis != 1) c.fail_value(fmt::format("axis must be 1, got {}", axis));
  if (output_mean_var) c.fail_value("output_mean_var is not implemented");
  if (!min_calib_range || !max_calib_range) c.fail_value("needs min_calib_range and max_calib_range");
  expect_dtype(c, 0, {DType::int8, DType::uint8});
  for (int i = 1; i < 5; ++i) c.expect_input(i, Shape(c.shape(0)[1]), DType::float32);
  expect_range(c, 5);
  c.set_output(0, c.shape(0), DType::int8);
  set_range(c);
}

void run_cpu(const op::QuantizedBatchNorm& op, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  const float min = *op.min_calib_range, max = *op.max_calib_range;
  const float data_range = range_at(c, 5), out_range = magnitude(min, max), levels = level_count(DType::int8);
  put_number(c, 1, min);
  put_number(c, 2, max);
  const auto statistic = [&](int i) { return c.in(i).as<const float>(); };
  const float *const gamma = statistic(1), *const beta = statistic(2), *const mean = statistic(3),
                     *const var = statistic(4);
  const int64_t channels = in.shape[1], size = in.shape.product(2, in.shape.ndim());
  const float norm = 1 / std::sqrt(1 + float(op.eps));
  c.run.parallel_for(
      in.shape[0] * channels, std::max<int64_t>(1, 16384 / std::max<int64_t>(size, 1)),
      [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t k = row % channels;
          const float inverse_std = float(1 / std::sqrt(double(var[k]) + op.eps));
          const float scale = out_range == 0 ? 0 : gamma[k] * inverse_std * data_range / out_range * norm;
          const float shift = out_range == 0 ? 0 : (beta[k] - mean[k] * gamma[k] * inverse_std) * levels / out_range;
          const uint8_t* const from = in.as<const uint8_t>() + row * size;
          int8_t* const to = out.as<int8_t>() + row * size;
          for (int64_t i = 0; i < size; i += int64_t(quant_tile)) {
            const size_t n = std::min(quant_tile, size_t(size - i));
            float x[quant_tile], y[quant_tile];
            levels_to_floats(in.dtype, from + i, 1, x, n);
            if (in.dtype == DType::uint8) {  // as int8 first
              floats_to_levels(x, levels / level_count(DType::uint8), DType::int8, to + i, n);
              levels_to_floats(DType::int8, to + i, 1, x, n);
            }
            std::fill_n(y, n, shift);
            add_scaled(x, scale, true, y, n);
            floats_to_levels(y, 1, DType::int8, to + i, n);
          }
        }
      });
}

}  // namespace kaon
