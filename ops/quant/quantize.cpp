// From numbers to levels and back.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/quant/kernels/quant_infer.h"
#include "kaon/ops/quant/kernels/quant_tiles.h"
#include "kaon/ops/quant/kernels/quant_values.h"
#include "kaon/ops/quant/kernels/ranges.h"
#include "kaon/ops/reduce/reduce.h"

namespace kaon {

using namespace ops;

namespace ops {

void expect_dtype(const InferContext& c, int i, std::initializer_list<DType> allowed) {
  if (std::find(allowed.begin(), allowed.end(), c.dtype(i)) != allowed.end()) return;
  std::string names;
  for (DType t : allowed) names += fmt::format("{}{}", names.empty() ? "" : " or ", name_of(t));
  c.fail_dtype(fmt::format("input {} must be of {}, got {}", i, names, name_of(c.dtype(i))));
}

void expect_range(InferContext& c, int i) {
  for (int k : {i, i + 1}) c.expect_input(k, Shape(1), DType::float32);
}

void set_range(InferContext& c, int i) {
  for (int k : {i, i + 1}) c.set_output(k, Shape(1), DType::float32);
}

DType level_dtype(QuantType type, const std::optional<float>& min, const std::optional<float>& max) {
  const bool is_unsigned = type == QuantType::uint8 || (type == QuantType::automatic && min && max && *min >= 0);
  return is_unsigned ? DType::uint8 : DType::int8;
}

Bounds range_of(KernelContext& c, const TensorView& data) {
  if (data.size() == 0) return {0, 0};
  const auto reduced = [&]<class Op, class T>(const Op& op, T) {
    T number{};
    const TensorView out{&number, Shape(1), data.dtype};
    KernelContext inner{.inputs = std::span(&data, 1), .outputs = std::span(&out, 1), .run = c.run};
    run_cpu(op, inner);
    return float(number);
  };
  if (data.dtype == DType::int32) return {reduced(op::Min{}, int32_t()), reduced(op::Max{}, int32_t())};
  return {reduced(op::Min{}, float()), reduced(op::Max{}, float())};
}

}  // namespace ops

// --- quantize

constinit const OpDef op::Quantize::def = make_op_def<op::Quantize>();

void op::Quantize::infer(InferContext& c) const {
  if (out_type == QuantType::automatic) c.fail_value("out_type must be int8 or uint8, got auto");
  expect_dtype(c, 0, {DType::float32});
  expect_range(c, 1);
  c.set_output(0, c.shape(0), level_dtype(out_type, {}, {}));
  set_range(c);
}

void run_cpu(const op::Quantize& op, KernelContext& c) {
  const DType to = c.out().dtype;
  const float r = range_at(c, 1);
  rescale_levels(c.run, DType::float32, c.in(0).data, levels_per_unit(whole_level_count(to), r), to, c.out().data,
                 c.out().size());
  put_number(c, 1, op.out_type == QuantType::int8 ? -r : number_at(c, 1));
  put_number(c, 2, op.out_type == QuantType::int8 ? r : number_at(c, 2));
}

// --- quantize_v2

constinit const OpDef op::QuantizeV2::def = make_op_def<op::QuantizeV2>();

void op::QuantizeV2::infer(InferContext& c) const {
  const DType to = level_dtype(out_type, min_calib_range, max_calib_range);
  expect_dtype(c, 0, {DType::float32, to});
  c.set_output(0, c.shape(0), to);
  set_range(c);
}

void run_cpu(const op::QuantizeV2& op, KernelContext& c) {
  const DType to = c.out().dtype;
  const bool is_calibrated = op.min_calib_range && op.max_calib_range, passes = c.in(0).dtype == to;
  const float all = level_count(to);
  Bounds range{to == DType::int8 ? -all : 0.f, all};
  if (is_calibrated) {
    range = {*op.min_calib_range, *op.max_calib_range};
  } else if (!passes) {
    range = range_of(c, c.in(0));
  }
  if (passes) {
    rescale_levels(c.run, to, c.in(0).data, 1, to, c.out().data, c.out().size());
  } else {
    const float r = magnitude(range.min, range.max);
    rescale_levels(c.run, DType::float32, c.in(0).data, levels_per_unit(all, r), to, c.out().data, c.out().size());
    if (to == DType::int8) range = {-r, r};
  }
  put_number(c, 1, range.min);
  put_number(c, 2, range.max);
}

// --- quantize_asym

constinit const OpDef op::QuantizeAsym::def = make_op_def<op::QuantizeAsym>();

void op::QuantizeAsym::infer(InferContext& c) const {
  expect_dtype(c, 0, {DType::float32});
  c.set_output(0, c.shape(0), DType::uint8);
  set_range(c);
}

void run_cpu(const op::QuantizeAsym& op, KernelContext& c) {
  const TensorView& in = c.in(0);
  const bool is_calibrated = op.min_calib_range && op.max_calib_range;
  const Bounds range = is_calibrated ? Bounds{*op.min_calib_range, *op.max_calib_range} : range_of(c, in);
  const float scale = levels_per_unit(255, range.max - range.min), shift = 255 - range.max * scale;
  uint8_t* const out = c.out().as<uint8_t>();
  c.run.parallel_for(in.size(), 32768, [&](int64_t begin, int64_t end) {
    floats_to_asymmetric(in.as<const float>() + begin, scale, shift, out + begin, size_t(end - begin));
  });
  put_number(c, 1, scale);
  put_number(c, 2, shift);
}

// --- dequantize

constinit const OpDef op::Dequantize::def = make_op_def<op::Dequantize>();

void op::Dequantize::infer(InferContext& c) const {
  if (out_type != DType::float32) c.fail_value(fmt::format("out_type must be float32, got {}", name_of(out_type)));
  expect_dtype(c, 0, {DType::int8, DType::uint8, DType::int32});
  expect_range(c, 1);
  c.set_output(c.shape(0), out_type);
}

void run_cpu(const op::Dequantize&, KernelContext& c) {
  const DType from = c.in(0).dtype;
  rescale_levels(c.run, from, c.in(0).data, range_at(c, 1) / level_count(from), DType::float32, c.out().data,
                 c.out().size());
}

// --- requantize

constinit const OpDef op::Requantize::def = make_op_def<op::Requantize>();

void op::Requantize::infer(InferContext& c) const {
  expect_dtype(c, 0, {DType::int32});
  expect_range(c, 1);
  c.set_output(0, c.shape(0), level_dtype(out_type, min_calib_range, max_calib_range));
  set_range(c);
}

void run_cpu(const op::Requantize& op, KernelContext& c) {
  const DType to = c.out().dtype;
  const float in_range = range_at(c, 1), in_levels = level_count(DType::int32);
  float r = 0;
  if (op.min_calib_range && op.max_calib_range) {
    r = magnitude(*op.min_calib_range, *op.max_calib_range);
  } else {
    const Bounds levels = range_of(c, c.in(0));
    r = magnitude(levels.min, levels.max) * in_range / in_levels;
  }
  const float scale = in_range / in_levels * levels_per_unit(whole_level_count(to), r);
  rescale_levels(c.run, DType::int32, c.in(0).data, scale, to, c.out().data, c.out().size());
  put_number(c, 1, to == DType::int8 ? -r : 0);
  put_number(c, 2, r);
}

}  // namespace kaon
