// GridGenerator, and the samplers that are made of a grid.
#include <fmt/format.h>

#include "kaon/ops/functions.h"
#include "kaon/ops/nn/spatial/kernels/grid_value.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

void expect_target(const InferContext& c, const Shape& target) {
  if (target.ndim() != 2 || target[0] < 1 || target[1] < 1) {
    c.fail_value(fmt::format("target_shape must be two positive numbers, got {}", target.str()));
  }
}

// Checks data of a sampler.
void expect_pixels(InferContext& c) {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim(0, 4);
  if (c.shape(0)[2] < 1 || c.shape(0)[3] < 1) {
    c.fail(fmt::format("images must have at least one pixel; inputs: {}", c.describe_inputs()));
  }
}

// -1 to 1 along an axis of the heads, 0 where it has one pixel: (pixels, 1).
NDArray line_along(const NDArray& head, int axis) {
  const int64_t n = head.shape()[axis];
  const op::ArangeLike line{.start = n > 1 ? -1.0 : 0.0, .step = n > 1 ? 2.0 / double(n - 1) : 1.0, .axis = axis};
  return nd._reshape_to(nd.arange_like(head, line), {.shape = {n, 1}});
}

}  // namespace

// --- GridGenerator

constinit const OpDef op::GridGenerator::def = make_op_def<op::GridGenerator>();

void op::GridGenerator::infer(InferContext& c) const {
  c.expect_floating();
  if (transform_type == GridTransform::affine) {
    c.expect_ndim(0, 2);
    expect_target(c, target_shape);
    const int64_t n = c.shape(0)[0];
    c.expect_shape(0, {n, 6});
    return c.set_output({n, 2, target_shape[0], target_shape[1]}, c.dtype());
  }
  c.expect_ndim(0, 4);
  const Shape data = c.shape(0);
  if (data[1] != 2 || data[2] < 2 || data[3] < 2) {
    c.fail(fmt::format("warp takes data (n, 2, h, w) of two pixels and more, got {}", data.str()));
  }
  c.set_output(data, c.dtype());
}

void op::GridGenerator::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const NDArray& head = g.head();
  const Shape& s = head.shape();
  if (transform_type == GridTransform::warp) {
    const auto part = [&](int64_t i, int64_t size) {
      return nd.slice_axis(head, 1, i, i + 1) * (2.0 / double(size - 1));
    };
    return g.set(0, nd.concat(op::Concat{.dim = 1}, part(0, s[3]), part(1, s[2])));
  }
  const auto along = [&](int axis) {  // sums over the other axis, times the line
    const NDArray sums = nd._reshape_to(nd.sum(head, {.axis = {5 - axis}}), {.shape = {s[0] * 2, s[axis]}});
    return nd.dot(sums, line_along(head, axis));
  };
  const NDArray whole = nd._reshape_to(nd.sum(head, {.axis = {2, 3}}), {.shape = {s[0] * 2, 1}});
  g.set(0, nd._reshape_to(nd.concat(op::Concat{.dim = 1}, along(3), along(2), whole), {.shape = {s[0], 6}}));
}

void run_cpu(const op::GridGenerator& op, KernelContext& c) {
  dispatch_float("GridGenerator", c.out().dtype, [&]<class T>() {
    const GridValue<T> value(op, c);
    c.run.parallel_for(c.out().shape[0] * 2 * value.height, std::max<int64_t>(1, (1 << 13) / value.width),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t line = begin; line < end; ++line) {
                           for (int64_t x = 0; x < value.width; ++x) value(line, x);
                         }
                       });
  });
}

// --- BilinearSampler and SpatialTransformer

constinit const OpDef op::BilinearSampler::def = make_op_def<op::BilinearSampler>();
constinit const OpDef op::SpatialTransformer::def = make_op_def<op::SpatialTransformer>();

void op::BilinearSampler::infer(InferContext& c) const {
  expect_pixels(c);
  c.expect_ndim(1, 4);
  const Shape data = c.shape(0), grid = c.shape(1);
  c.expect_shape(1, {data[0], 2, grid[2], grid[3]});
  c.set_output({data[0], data[1], grid[2], grid[3]}, c.dtype());
}

void op::BilinearSampler::compose(ComposeContext& c) const {
  c.set(nd._sample_images(c.input(0), c.input(1), {.kind = SampleKind::grid}));
}

void op::SpatialTransformer::infer(InferContext& c) const {
  expect_pixels(c);
  expect_target(c, target_shape);
  const Shape data = c.shape(0);
  c.expect_shape(1, {data[0], 6});
  c.set_output({data[0], data[1], target_shape[0], target_shape[1]}, c.dtype());
}

void op::SpatialTransformer::compose(ComposeContext& c) const {
  // in float32 where data have 16 bits: a grid that is rounded would lead to other pixels
  const DType dtype = c.output().dtype;
  const bool is_narrow = size_of(dtype) == 2;
  const auto input = [&](int i) { return is_narrow ? nd.cast(c.input(i), DType::float32) : c.input(i); };
  const NDArray grid = nd.GridGenerator(input(1), {.target_shape = target_shape});
  const NDArray y = nd._sample_images(input(0), grid, {.kind = SampleKind::grid});
  c.set(is_narrow ? nd.cast(y, dtype) : y);
}

}  // namespace kaon
