// Dense layers of weights of a few bits.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/kernels/epilogue.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/linalg/kernels/packed_product.h"
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

// The products of x with a panel: with the last one and with the others.
struct PanelProducts : KernelState {
  PackedProduct product[2];
  std::string implementation() const override { return product[0].implementation(); }
};

// y (m, rows) = x W^T + bias by panels of rows of W, each of which a thread unpacks, packs and multiplies while it is
// in its L2 cache.
void panel_products(KernelContext& c, const BlockWeights& w, const float* x, int64_t m, const float* bias, float* y) {
  constexpr int64_t panel_weights = 1 << 18;  // 1 MB as numbers
  const int64_t wanted = std::clamp<int64_t>(panel_weights / w.columns / 16 * 16, 16, 256);
  const int64_t panels = (w.rows + wanted - 1) / wanted, last = w.rows - (panels - 1) * wanted;
  const onednn::Key key('q', m, w.rows, w.columns);
  const auto products = onednn::obtain<PanelProducts>(c, "inner product", key, [&] {
    auto made = std::make_unique<PanelProducts>();
    made->product[0] = PackedProduct(m, last, w.columns, true, w.columns);
    if (panels > 1) made->product[1] = PackedProduct(m, wanted, w.columns, true, w.columns);
    return made;
  });
  c.run.parallel_for(panels, 1, [&](int64_t begin, int64_t end) {
    const int64_t most = std::min(wanted, w.rows);
    const Scratch panel(size_t(most * w.columns) * sizeof(float)), out(size_t(m * most) * sizeof(float));
    const Scratch packed(std::max(products->product[0].bytes(), products->product[1].bytes()));
    for (int64_t i = begin; i < end; ++i) {
      const PackedProduct& product = products->product[i + 1 < panels];
      const int64_t first = i * wanted, count = std::min(wanted, w.rows - first);
      unpack_rows(w, first, first + count, panel.as<float>());
      if (!product.takes_plain()) product.pack(panel.as<float>(), packed.as<float>());
      product.run(x, product.takes_plain() ? panel.as<float>() : packed.as<float>(), out.as<float>());
      const Epilogue<float> added{.shift = bias ? bias + first : nullptr};
      finish_rows(out.as<float>(), count, y + first, w.rows, m, count, added);
    }
  });
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
    if (m <= few_rows || columns == 0) return block_products(c.run, w, x, m, bias, c.out().as<float>());
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
