// Deformable convolutions: the product of weights and the columns of samples.
#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/nn/conv/kernels/conv_window.h"
#include "kaon/ops/nn/conv/kernels/window_columns.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int is_modulated(const op::DeformableConvolution&) { return 0; }
constexpr int is_modulated(const op::ModulatedDeformableConvolution&) { return 1; }

// Checks everything and sets the shapes of weights and result. `first`: the inputs before the weight.
template <class Op>
void infer_deformable(const Op& op, InferContext& c) {
  const int weight = 2 + is_modulated(op);
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim(0, 4);
  check_window(c, op.kernel, op.stride, op.dilate, op.pad, 2);
  check_layout(c, op.layout, 2, false);
  const Shape data = c.shape(0);
  const int64_t filters = op.num_filter, groups = op.num_group, parts = op.num_deformable_group;
  if (filters < 1) c.fail_value(fmt::format("num_filter must be at least 1, got {}", filters));
  if (groups < 1 || filters % groups != 0 || data[1] % groups != 0) {
    c.fail_value(fmt::format("num_group must divide {} channels and {} filters, got {}", data[1], filters, groups));
  }
  if (parts < 1 || data[1] % parts != 0) {
    c.fail_value(fmt::format("num_deformable_group must divide {} channels, got {}", data[1], parts));
  }
  const WindowColumns windows = window_columns(op, 0, data);
  const Shape out(data[0], filters, windows.y.windows, windows.x.windows);
  if (data[2] < 1 || data[3] < 1 || out[2] < 1 || out[3] < 1) {
    c.fail(fmt::format("kernel {} exceeds the padded data {}", op.kernel.str(), data.str()));
  }
  const int64_t taps = op.kernel[0] * op.kernel[1];
  c.expect_shape(1, {data[0], parts * taps * 2, out[2], out[3]});
  if (is_modulated(op)) c.expect_shape(2, {data[0], parts * taps, out[2], out[3]});
  c.expect_shape(weight, {filters, data[1] / groups, op.kernel[0], op.kernel[1]});
  if (!op.no_bias) c.expect_shape(weight + 1, {filters});
  c.set_output(out, c.dtype());
}

// The columns are (c kh kw, n, positions), so that a group of channels is one matrix for all images.
template <class Op>
void compose_deformable(const Op& op, ComposeContext& c) {
  const NDArray &data = c.input(0), &offset = c.input(1), &weight = c.input(2 + is_modulated(op));
  const op::SampleImages samples{.kind = is_modulated(op) ? SampleKind::modulated : SampleKind::deformed,
                                 .kernel = op.kernel,
                                 .stride = op.stride,
                                 .dilate = op.dilate,
                                 .pad = op.pad,
                                 .num_deformable_group = op.num_deformable_group};
  const NDArray columns = is_modulated(op) ? nd._sample_images(data, offset, c.input(2), samples)
                                           : nd._sample_images(data, offset, samples);
  const Shape out = c.output().shape;
  const int64_t groups = op.num_group, filters = out[1], positions = out[2] * out[3];
  const int64_t depth = columns.shape()[0] / groups;
  NDArray y = nd.batch_dot(nd._reshape_to(weight, {.shape = {groups, filters / groups, depth}}),
                           nd._reshape_to(columns, {.shape = {groups, depth, out[0] * positions}}));
  if (out[0] != 1) {
    y = nd.transpose(nd._reshape_to(y, {.shape = {filters, out[0], positions}}), {1, 0, 2});
  }
  y = nd._reshape_to(y, {.shape = out});
  if (op.no_bias) return c.set(y);
  const NDArray& bias = c.input(3 + is_modulated(op));
  c.set(nd.broadcast_add(y, nd._reshape_to(bias, {.shape = {1, filters, 1, 1}})));
}

}  // namespace

constinit const OpDef op::DeformableConvolution::def = make_op_def<op::DeformableConvolution>();
constinit const OpDef op::ModulatedDeformableConvolution::def = make_op_def<op::ModulatedDeformableConvolution>();

void op::DeformableConvolution::infer(InferContext& c) const { infer_deformable(*this, c); }
void op::DeformableConvolution::compose(ComposeContext& c) const { compose_deformable(*this, c); }
void op::ModulatedDeformableConvolution::infer(InferContext& c) const { infer_deformable(*this, c); }
void op::ModulatedDeformableConvolution::compose(ComposeContext& c) const { compose_deformable(*this, c); }

}  // namespace kaon
