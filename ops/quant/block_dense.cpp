// Dense layers of weights of a few bits.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/linalg/kernels/gemm.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/quant/kernels/block_dense.h"
#include "kaon/ops/quant/kernels/block_weights.h"
#include "kaon/ops/quant/kernels/quant_infer.h"

namespace kaon {

using namespace ops;
namespace {

// Of inputs from `first` on: weight, scales, zero points.
void infer_blocks(InferContext& c, int first, int64_t columns, int bits, int64_t block, bool has_zeros) {
  if (bits != 2 && bits != 4 && bits != 8) c.fail_value(fmt::format("bits must be 2, 4 or 8, got {}", bits));
  if (block < 16 || (block & (block - 1)) != 0) {
    c.fail_value(fmt::format("block_size must be a power of two from 16 on, got {}", block));
  }
  expect_dtype(c, first, {DType::uint8});
  c.expect_ndim(first, 3);
  const int64_t rows = c.shape(first)[0], blocks = (columns + block - 1) / block;
  c.expect_shape(first, Shape(rows, blocks, block * bits / 8));
  c.expect_floating(first + 1);
  c.expect_shape(first + 1, Shape(rows, blocks));
  if (!has_zeros) return;
  const bool is_packed = c.dtype(first + 2) == DType::uint8;
  if (!is_packed) c.expect_floating(first + 2);
  c.expect_shape(first + 2, Shape(rows, is_packed ? (blocks * bits + 7) / 8 : blocks));
}

// Calls kernel(context) with all floating tensors in float32.
template <class Kernel>
void with_floats(KernelContext& context, Kernel&& kernel) {
  as_float32(context, [&](KernelContext& c) {
    std::array<TensorView, 5> in;
    std::copy(c.inputs.begin(), c.inputs.end(), in.begin());
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      if (in[i].dtype != DType::float64) continue;  // scales and zero points
      const auto* const from = in[i].as<const double>();
      auto* const to = static_cast<float*>(c.run.workspace(size_t(in[i].size()) * sizeof(float)));
      std::transform(from, from + in[i].size(), to, [](double v) { return float(v); });
      in[i].data = to, in[i].dtype = DType::float32;
    }
    KernelContext floats{.inputs = std::span(in.data(), c.inputs.size()), .outputs = c.outputs, .run = c.run};
    kernel(floats);
  });
}

// `first`: the weight's input.
BlockWeights weights_of(const KernelContext& c, int first, int64_t columns, int bits, int64_t block, bool has_zeros) {
  BlockWeights w{.bits = bits, .block = block, .rows = c.in(first).shape[0], .columns = columns};
  w.codes = c.in(first).as<const uint8_t>();
  w.scales = c.in(first + 1).as<const float>();
  if (!has_zeros) return w;
  if (c.in(first + 2).dtype == DType::uint8) {
    w.packed_zeros = c.in(first + 2).as<const uint8_t>();
  } else {
    w.zeros = c.in(first + 2).as<const float>();
  }
  return w;
}

// y (m, rows) = x W^T + bias, a panel of unpacked rows of W after the other.
void panel_products(KernelContext& c, const BlockWeights& w, const float* x, int64_t m, const float* bias, float* y) {
  constexpr int64_t panel_weights = 1 << 21, most_rows = 2048;  // 8 MB as numbers; of x
  const int64_t wanted = std::max<int64_t>(64, panel_weights / std::max<int64_t>(w.columns, 1) / 64 * 64);
  const int64_t rows = std::min(wanted, w.rows), part = std::min(m, most_rows);
  const auto floats = [&](int64_t n) { return static_cast<float*>(c.run.workspace(size_t(n) * sizeof(float))); };
  float* const panel = floats(rows * w.columns);
  float* const products = floats(part * rows);
  for (int64_t r = 0; r < w.rows; r += rows) {
    const int64_t count = std::min(rows, w.rows - r);
    const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(w.columns, 1));
    c.run.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
      unpack_rows(w, r + begin, r + end, panel + begin * w.columns);
    });
    for (int64_t i = 0; i < m; i += part) {
      const int64_t own = std::min(part, m - i);
      gemm(c, Gemm<float>{.a = x + i * w.columns,
                          .b = panel,
                          .c = products,
                          .m = own,
                          .n = count,
                          .k = w.columns,
                          .transpose_b = true});
      const Epilogue<float> added{.shift = bias ? bias + r : nullptr};
      c.run.parallel_for(own, std::max<int64_t>(1, 32768 / count), [&](int64_t begin, int64_t end) {
        finish_rows(products + begin * count, count, y + (i + begin) * w.rows + r, w.rows, end - begin, count, added);
      });
    }
  }
}

}  // namespace

constinit const OpDef op::BlockQuantizedDense::def = make_op_def<op::BlockQuantizedDense>();
constinit const OpDef op::BlockDequantize::def = make_op_def<op::BlockDequantize>();

void op::BlockQuantizedDense::infer(InferContext& c) const {
  expect_dtype(c, 0, {DType::float32, DType::float16, DType::bfloat16});
  c.expect_ndim_at_least(0, 1);
  infer_blocks(c, 1, c.shape(0).back(), bits, block_size, has_zeros);
  Shape out = c.shape(0);
  out[out.ndim() - 1] = c.shape(1)[0];
  if (!no_bias) c.expect_input(3 + int(has_zeros), Shape(c.shape(1)[0]), c.dtype());
  c.set_output(out, c.dtype());
}

void op::BlockQuantizedDense::grad(GradContext& g) const {
  const Shape& data = g.input_like(0).shape();
  const int64_t columns = data.back(), rows = g.input_like(1).shape()[0];
  const NDArray head = nd._reshape_to(g.head(), {.shape = Shape(rows ? g.head().size() / rows : 0, rows)});
  if (g.wants(0)) {
    const op::BlockDequantize op{.columns = columns, .bits = bits, .block_size = block_size, .has_zeros = has_zeros};
    std::array<const NDArray*, 3> inputs{&g.input(1), &g.input(2), nullptr};
    if (has_zeros) inputs[2] = &g.input(3);
    NDArray w;
    NDArray::apply(op::BlockDequantize::def, &op, std::span(inputs.data(), size_t(op.num_inputs())), std::span(&w, 1),
                   std::source_location::current(), "");
    if (w.dtype() != head.dtype()) w = nd.cast(w, head.dtype());
    g.set(0, nd._reshape_to(nd.dot(head, w), {.shape = data}));
  }
  if (!no_bias && g.wants(3 + int(has_zeros))) g.set(3 + int(has_zeros), nd.sum(head, {.axis = Shape(0)}));
}

double op::BlockQuantizedDense::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const {
  return 2.0 * double(outputs[0].shape.size()) * double(inputs[0].shape.back());
}

void run_cpu(const op::BlockQuantizedDense& op, KernelContext& context) {
  if (context.out().size() == 0) return;
  with_floats(context, [&](KernelContext& c) {
    const int64_t columns = c.in(0).shape.back();
    const BlockWeights w = weights_of(c, 1, columns, op.bits, op.block_size, op.has_zeros);
    const int64_t m = c.out().size() / w.rows;
    const auto* const x = c.in(0).as<const float>();
    const float* const bias = op.no_bias ? nullptr : c.in(3 + int(op.has_zeros)).as<const float>();
    if (m <= few_rows) return block_products(c.run, w, x, m, bias, c.out().as<float>());
    panel_products(c, w, x, m, bias, c.out().as<float>());
  });
}

void op::BlockDequantize::infer(InferContext& c) const {
  if (columns < 0) c.fail_value(fmt::format("columns must be at least 0, got {}", columns));
  infer_blocks(c, 0, columns, bits, block_size, has_zeros);
  c.set_output(Shape(c.shape(0)[0], columns), DType::float32);
}

void run_cpu(const op::BlockDequantize& op, KernelContext& context) {
  if (context.out().size() == 0) return;
  with_floats(context, [&](KernelContext& c) {
    const BlockWeights w = weights_of(c, 0, op.columns, op.bits, op.block_size, op.has_zeros);
    auto* const to = c.out().as<float>();
    c.run.parallel_for(w.rows, std::max<int64_t>(1, 65536 / op.columns),
                       [&](int64_t begin, int64_t end) { unpack_rows(w, begin, end, to + begin * op.columns); });
  });
}

}  // namespace kaon
