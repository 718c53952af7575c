// Levels of other tools' quantised nets outside layers.
#include "kaon/ops/quant/kernels/integer_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/nn/pooling/kernels/pooling_window.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/quant/kernels/level_tiles.h"
#include "kaon/ops/quant/kernels/quant_infer.h"
#include "kaon/ops/quant/kernels/quant_tiles.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t values_grain = 32768;  // elements, some 5 us

void expect_scale(const InferContext& c, std::string_view name, double scale) {
  if (!(scale > 0)) c.fail_value(fmt::format("{} must be above 0, got {}", name, scale));
}

void expect_levels(const InferContext& c, DType type) {
  if (type != DType::int8 && type != DType::uint8) {
    c.fail_value(fmt::format("out_type must be int8 or uint8, got {}", name_of(type)));
  }
}

LevelMeaning meaning(DType dtype, double scale, int zero) { return {dtype, float(scale), float(zero)}; }

}  // namespace

constinit const OpDef op::IntegerQuantize::def = make_op_def<op::IntegerQuantize>();
constinit const OpDef op::IntegerDequantize::def = make_op_def<op::IntegerDequantize>();
constinit const OpDef op::IntegerAdd::def = make_op_def<op::IntegerAdd>();
constinit const OpDef op::IntegerMaxPool::def = make_op_def<op::IntegerMaxPool>();

void op::IntegerQuantize::infer(InferContext& c) const {
  expect_scale(c, "scale", scale);
  expect_levels(c, out_type);
  expect_dtype(c, 0, {DType::float32});
  c.set_output(c.shape(0), out_type);
}

void run_cpu(const op::IntegerQuantize& op, KernelContext& c) {
  const auto* const from = c.in(0).as<const float>();
  auto* const to = c.out().as<uint8_t>();
  const LevelMeaning m = meaning(op.out_type, op.scale, op.zero);
  c.run.parallel_for(c.out().size(), values_grain, [&](int64_t begin, int64_t end) {
    numbers_to_levels(from + begin, m, to + begin, size_t(end - begin));
  });
}

void op::IntegerDequantize::infer(InferContext& c) const {
  expect_scale(c, "scale", scale);
  expect_dtype(c, 0, {DType::int8, DType::uint8});
  c.set_output(c.shape(0), DType::float32);
}

void run_cpu(const op::IntegerDequantize& op, KernelContext& c) {
  const auto* const from = c.in(0).as<const uint8_t>();
  auto* const to = c.out().as<float>();
  const LevelMeaning m = meaning(c.in(0).dtype, op.scale, op.zero);
  c.run.parallel_for(c.out().size(), values_grain, [&](int64_t begin, int64_t end) {
    numbers_of_levels(from + begin, m, to + begin, size_t(end - begin));
  });
}

void op::IntegerAdd::infer(InferContext& c) const {
  expect_scale(c, "lhs_scale", lhs_scale);
  expect_scale(c, "rhs_scale", rhs_scale);
  expect_scale(c, "scale", scale);
  expect_levels(c, out_type);
  for (int i : {0, 1}) expect_dtype(c, i, {DType::int8, DType::uint8});
  c.expect_shape(1, c.shape(0));
  c.set_output(c.shape(0), out_type);
}

void run_cpu(const op::IntegerAdd& op, KernelContext& c) {
  const auto *const a = c.in(0).as<const uint8_t>(), *const b = c.in(1).as<const uint8_t>();
  auto* const to = c.out().as<uint8_t>();
  const LevelMeaning left = meaning(c.in(0).dtype, op.lhs_scale, op.lhs_zero);
  const LevelMeaning right = meaning(c.in(1).dtype, op.rhs_scale, op.rhs_zero);
  const LevelMeaning m = meaning(op.out_type, op.scale, op.zero);
  c.run.parallel_for(c.out().size(), values_grain, [&](int64_t begin, int64_t end) {
    sums_of_levels(a + begin, left, b + begin, right, op.relu, m, to + begin, size_t(end - begin));
  });
}

void op::IntegerMaxPool::infer(InferContext& c) const {
  expect_dtype(c, 0, {DType::int8, DType::uint8});
  c.expect_ndim(0, 4);
  const op::Pooling floats{.kernel = kernel, .stride = stride, .pad = pad};
  c.set_output(layer_shape(c, floats, 1, c.dtype()), c.dtype());
}

void run_cpu(const op::IntegerMaxPool& op, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  if (out.size() == 0) return;
  const PoolWindows w = pool_windows(op::Pooling{.kernel = op.kernel, .stride = op.stride, .pad = op.pad}, in.shape);
  const int64_t channels = in.shape[1], height = in.shape[2], width = in.shape[3], rows = out.shape[2];
  const int64_t columns = out.shape[3];
  const bool is_last = in.layout == Layout::channels_last;
  // of an image with channels last, or of a plane as an image of one channel
  LevelWindows windows{.width = width,
                       .channels = is_last ? channels : 1,
                       .rows_begin = 0,
                       .rows_end = 0,
                       .columns = columns,
                       .kernel = w.kernel[1],
                       .step = w.stride[1],
                       .pad = w.pad[1]};
  const int64_t images = is_last ? in.shape[0] : in.shape[0] * channels;
  const int64_t per_row = columns * windows.channels, grain = std::max<int64_t>(1, 8192 / per_row);
  c.run.parallel_for(images * rows, grain, [&](int64_t begin, int64_t end) {
    LevelWindows own = windows;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % rows * w.stride[0] - w.pad[0];
      own.rows_begin = std::max<int64_t>(first, 0), own.rows_end = std::min(first + w.kernel[0], height);
      largest_levels(in.dtype, in.as<const uint8_t>() + i / rows * height * width * own.channels, own,
                     out.as<uint8_t>() + i * per_row);
    }
  });
}

}  // namespace kaon
