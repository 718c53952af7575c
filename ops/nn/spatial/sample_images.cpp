// Images at positions of their own: what BilinearSampler and deformable convolutions are made of.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/nn/conv/kernels/conv_window.h"
#include "kaon/ops/nn/spatial/kernels/sample_kernels.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// Positions are numbers of pixels, and pixels have 32-bit offsets.
void expect_images(const InferContext& c, const Shape& data) {
  if (data.ndim() != 4 || !data.is_known()) c.fail(fmt::format("data must be images (n, c, h, w), got {}", data.str()));
  constexpr int64_t most = 1 << 24;
  if (std::min(data[2], data[3]) < 1 || std::max(data[2], data[3]) > most || data[2] * data[3] > INT32_MAX) {
    c.fail(fmt::format("images must have 1 to {} pixels an axis and less than 2^31 in all, got {}", most, data.str()));
  }
}

// Checks the positions (input `at`) and the mask behind them. Returns the shape of the samples.
template <class Op>
Shape expect_samples(InferContext& c, const Op& op, const Shape& data, int at) {
  expect_images(c, data);
  c.expect_ndim(at, 4);
  const Shape where = c.shape(at);
  if (op.kind == SampleKind::grid) {
    c.expect_shape(at, {data[0], 2, where[2], where[3]});
    return {data[0], data[1], where[2], where[3]};
  }
  check_window(c, op.kernel, op.stride, op.dilate, op.pad, 2);
  const int64_t groups = op.num_deformable_group, taps = op.kernel[0] * op.kernel[1];
  if (groups < 1 || data[1] % groups != 0) {
    c.fail_value(fmt::format("num_deformable_group must divide {} channels, got {}", data[1], groups));
  }
  c.expect_shape(at, {data[0], groups * taps * 2, where[2], where[3]});
  if (op.kind == SampleKind::modulated) c.expect_shape(at + 1, {data[0], groups * taps, where[2], where[3]});
  return {data[1] * taps, data[0], where[2] * where[3]};
}

}  // namespace

template <SamplePart P>
constinit const OpDef op::SampleOp<P>::def = make_op_def<op::SampleOp<P>>();

template <SamplePart P>
void op::SampleOp<P>::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  if constexpr (P == SamplePart::forward) {
    c.expect_ndim(0, 4);
    c.set_output(expect_samples(c, *this, c.shape(0), 1), c.dtype());
  } else if constexpr (P == SamplePart::backward_data) {
    c.expect_shape(0, expect_samples(c, *this, shape, 1));
    c.set_output(shape, c.dtype());
  } else {
    c.expect_ndim(1, 4);
    c.expect_shape(0, expect_samples(c, *this, c.shape(1), 2));
    c.set_output(0, c.shape(2), c.dtype());
    if (kind == SampleKind::modulated) c.set_output(1, c.shape(3), c.dtype());
  }
}

template <SamplePart P>
void op::SampleOp<P>::grad(GradContext& g) const requires(P == SamplePart::forward) {
  if (!g.has_head(0)) return;
  const bool masked = kind == SampleKind::modulated;
  const auto of_data = part<SamplePart::backward_data>(g.input_like(0).shape());
  const auto of_positions = part<SamplePart::backward_positions>();
  if (g.wants(0)) {
    g.set(0, masked ? nd._backward_sample_images_data(g.head(), g.input(1), g.input(2), of_data)
                    : nd._backward_sample_images_data(g.head(), g.input(1), of_data));
  }
  if (!g.wants(1) && !(masked && g.wants(2))) return;
  const std::vector<NDArray> found =
      masked ? nd._backward_sample_images_positions(g.head(), g.input(0), g.input(1), g.input(2), of_positions)
             : nd._backward_sample_images_positions(g.head(), g.input(0), g.input(1), of_positions);
  for (int i = 0; i < int(found.size()); ++i) {
    if (g.wants(1 + i)) g.set(1 + i, found[size_t(i)]);
  }
}

template <SamplePart P>
double op::SampleOp<P>::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const {
  return 10 * double((P == SamplePart::forward ? outputs[0] : inputs[0]).shape.size());
}

template <SamplePart P>
void run_cpu(const op::SampleOp<P>& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    constexpr int at = P == SamplePart::backward_positions ? 2 : 1;  // of the positions
    const Shape& data = P == SamplePart::backward_data ? c.out().shape : c.in(at - 1).shape;
    const T* const mask = op.kind == SampleKind::modulated ? c.in(at + 1).template as<const T>() : nullptr;
    const SampleJob<T> job(op, data, c.in(at).shape, c.in(at).template as<const T>(), mask);
    const T* const first = c.in(0).template as<const T>();
    T* const out = c.out().template as<T>();
    if constexpr (P == SamplePart::forward) {
      sample_forward(c.run, job, first, out);
    } else if constexpr (P == SamplePart::backward_data) {
      sample_backward_data(c.run, job, first, out);
    } else {
      T* const of_mask = mask ? c.out(1).template as<T>() : nullptr;
      sample_backward_positions(c.run, job, first, c.in(1).template as<const T>(), out, of_mask);
    }
  });
}

template struct op::SampleOp<SamplePart::forward>;
template struct op::SampleOp<SamplePart::backward_data>;
template struct op::SampleOp<SamplePart::backward_positions>;
template void run_cpu(const op::SampleImages&, KernelContext&);
template void run_cpu(const op::BackwardSampleImagesData&, KernelContext&);
template void run_cpu(const op::BackwardSampleImagesPositions&, KernelContext&);

}  // namespace kaon
