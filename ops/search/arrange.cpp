// roll, rot90, diff, moveaxis and meshgrid.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/elementwise/kernels/binary_kernels.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/math/runs.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/search/kernels/difference.h"
#include "kaon/ops/search/kernels/rolled.h"
#include "kaon/ops/search/search.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Roll::def = make_op_def<op::Roll>();
constinit const OpDef op::Rot90::def = make_op_def<op::Rot90>();
constinit const OpDef op::Diff::def = make_op_def<op::Diff>();
constinit const OpDef op::MoveAxis::def = make_op_def<op::MoveAxis>();
constinit const OpDef op::Meshgrid::def = make_op_def<op::Meshgrid>();

// --- roll

void op::Roll::infer(InferContext& c) const {
  if (!shift || shift->empty()) c.fail_value("shift must be given");
  if (axis) {
    for (int64_t a : *axis) normalize_axis(a, c.shape(0).ndim(), c.op());
    if (shift->ndim() != 1 && shift->ndim() != axis->ndim()) {
      c.fail_value(fmt::format("shift must have one number or one for each axis, got {} for axes {}", shift->str(),
                               axis->str()));
    }
  }
  c.set_output(c.shape(0), c.dtype());
}

void op::Roll::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  Shape back = *shift;
  for (int i = 0; i < back.ndim(); ++i) back[i] = -back[i];
  g.set(0, nd.roll(g.head(), back, axis));
}

void run_cpu(const op::Roll& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  constexpr int64_t piece = 1 << 16;
  const Rolled rolled(op, c.in(0).shape);
  const int64_t width = int64_t(size_of(c.out().dtype));
  const int64_t row = rolled.row_elements() * width, front = rolled.wrapped() * width;
  const int64_t rows = int64_t(c.out().bytes()) / row, pieces = (row + piece - 1) / piece;
  const std::byte* const from = c.in(0).as<const std::byte>();
  std::byte* const to = c.out().as<std::byte>();
  c.run.parallel_for(rows * pieces, std::max<int64_t>(1, piece / row), [&](int64_t i, int64_t last) {
    for (; i < last; ++i) {
      const int64_t r = i / pieces, begin = i % pieces * piece, end = std::min(row, begin + piece);
      const std::byte* const source = from + rolled.source_row(r) * row;
      std::byte* const out = to + r * row;
      const int64_t middle = std::clamp(front, begin, end);  // before it: from the end of the row
      copy_run(out + begin, source + row - front + begin, size_t(middle - begin));
      copy_run(out + middle, source + middle - front, size_t(end - middle));
    }
  });
}

// --- rot90

namespace {

Shape turned_axes(const op::Rot90& op, int ndim) {
  const Shape axes = op.axes.value_or(Shape(0, 1));
  return Shape(normalize_axis(axes[0], ndim, "_npi_rot90"), normalize_axis(axes[1], ndim, "_npi_rot90"));
}

}  // namespace

void op::Rot90::infer(InferContext& c) const {
  if (axes && axes->ndim() != 2) c.fail_value(fmt::format("axes must be two, got {}", axes->str()));
  c.expect_ndim_at_least(0, 2);
  Shape shape = c.shape(0);
  const Shape turned = turned_axes(*this, shape.ndim());
  if (turned[0] == turned[1]) c.fail_value(fmt::format("axes must differ, got {}", axes->str()));
  if (k % 2 != 0) std::swap(shape[int(turned[0])], shape[int(turned[1])]);
  c.set_output(shape, c.dtype());
}

void op::Rot90::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  const Shape turned = turned_axes(*this, x.ndim());
  const int a = int(turned[0]), b = int(turned[1]);
  switch ((k % 4 + 4) % 4) {
    case 1: return c.set(nd.swapaxes(nd.reverse(x, Shape(b)), a, b));
    case 2: return c.set(nd.reverse(x, Shape(a, b)));
    case 3: return c.set(nd.reverse(nd.swapaxes(x, a, b), Shape(b)));
    default: return c.set(x);
  }
}

// --- diff

constinit const OpDef op::Difference::def = make_op_def<op::Difference>();

void op::Difference::infer(InferContext& c) const {
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
  Shape shape = c.shape(0);
  int64_t& size = shape[normalize_axis(axis, shape.ndim(), c.op())];
  if (size == 0) c.fail(fmt::format("axis {} of {} has no elements", axis, shape.str()));
  --size;
  c.set_output(shape, c.dtype());
}

// Each element is subtracted in one difference and added to the one before.
void op::Difference::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape& x = g.input_like(0).shape();
  const Shape none = Shape::filled(x.ndim(), 0), step = Shape::filled(x.ndim(), 1);
  Shape one = none;
  one[normalize_axis(axis, x.ndim(), "_difference")] = 1;
  g.set(0, nd._backward_slice(g.head(), {.shape = x, .begin = one, .step = step}) -
               nd._backward_slice(g.head(), {.shape = x, .begin = none, .step = step}));
}

void run_cpu(const op::Difference& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  const DifferenceRows s(c.in(0).shape, normalize_axis(op.axis, c.in(0).shape.ndim(), "_difference"));
  const TileFn subtract = binary_kernels(BinaryKind::sub).float32;
  dispatch_signed("_difference", c.out().dtype, [&]<class T>() {
    const T* const x = c.in(0).as<const T>();
    T* const y = c.out().as<T>();
    c.run.parallel_for(c.out().size(), 1 << 14, [&](int64_t i, int64_t end) {
      while (i < end) {
        const int64_t row = i / s.length, last = std::min(end, (row + 1) * s.length);
        const T* const from = x + row * s.inner;
        if constexpr (std::is_same_v<T, float>) {
          const float* const both[] = {from + i + s.inner, from + i};
          subtract(nullptr, both, y + i, size_t(last - i));
          i = last;
        }
        for (; i < last; ++i) y[i] = difference(from[i + s.inner], from[i]);
      }
    });
  });
}

void op::Diff::infer(InferContext& c) const {
  if (n < 0) c.fail_value(fmt::format("n must not be negative, got {}", n));
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
  Shape shape = c.shape(0);
  int64_t& size = shape[normalize_axis(axis, shape.ndim(), c.op())];
  size = std::max<int64_t>(0, size - n);
  c.set_output(shape, c.dtype());
}

void op::Diff::compose(ComposeContext& c) const {
  const int at = normalize_axis(axis, c.input().ndim(), "_npi_diff");
  const int64_t left = c.output().shape[at];
  if (left == 0) return c.set(nd.slice_axis(c.input(), at, 0, 0));
  NDArray x = c.input();
  for (int i = 0; i < n; ++i) x = nd._difference(x, {.axis = at});
  c.set(x);
}

// --- moveaxis

namespace {

// Axis i of the result is axis order[i] of an array of `ndim` axes.
Shape order_of(const op::MoveAxis& op, int ndim, const char* name) {
  Shape order = Shape::filled(ndim, -1);
  uint32_t moved = 0;
  for (int i = 0; i < op.source.ndim(); ++i) {
    const int from = normalize_axis(op.source[i], ndim, name), to = normalize_axis(op.destination[i], ndim, name);
    if ((moved & bit(from)) != 0 || order[to] >= 0) {
      throw ValueError(fmt::format("[{}] an axis is named twice: source {}, destination {}", name, op.source.str(),
                                   op.destination.str()));
    }
    moved |= bit(from), order[to] = from;
  }
  for (int to = 0, from = 0; to < ndim; ++to) {
    if (order[to] >= 0) continue;
    while ((moved & bit(from)) != 0) ++from;
    order[to] = from++;
  }
  return order;
}

}  // namespace

void op::MoveAxis::infer(InferContext& c) const {
  if (source.ndim() != destination.ndim()) {
    c.fail_value(
        fmt::format("source and destination must name as many axes, got {} and {}", source.str(), destination.str()));
  }
  const Shape& a = c.shape(0);
  const Shape order = order_of(*this, a.ndim(), c.op());
  Shape shape = a;
  for (int i = 0; i < a.ndim(); ++i) shape[i] = a[int(order[i])];
  c.set_output(shape, c.dtype());
}

void op::MoveAxis::compose(ComposeContext& c) const {
  const Shape order = order_of(*this, c.input().ndim(), "_np_moveaxis");
  c.set(order.empty() ? c.input() : nd.transpose(c.input(), order));
}

// --- meshgrid

void op::Meshgrid::infer(InferContext& c) const {
  if (num_args < 1 || num_args > Shape::max_ndim) {
    c.fail_value(fmt::format("takes 1 to {} arrays, got {}", Shape::max_ndim, num_args));
  }
  c.expect_same_dtype();
  Shape grid;
  for (int i = 0; i < num_args; ++i) {
    if (c.shape(i).ndim() > 1) c.fail("needs arrays of no or one dimension, got " + c.describe_inputs());
    grid.push_back(c.shape(i).size());
  }
  if (indexing == GridIndexing::xy && num_args > 1) std::swap(grid[0], grid[1]);
  for (int i = 0; i < num_args; ++i) c.set_output(i, grid, c.dtype());
}

void op::Meshgrid::compose(ComposeContext& c) const {
  for (int i = 0; i < num_args; ++i) {
    const Shape& grid = c.output(i).shape;
    const int along = indexing == GridIndexing::xy && num_args > 1 && i < 2 ? 1 - i : i;
    Shape one = Shape::filled(grid.ndim(), 1);
    one[along] = grid[along];
    Shape repeated, sizes;
    for (int d = 0; d < grid.ndim(); ++d) {
      if (d != along) repeated.push_back(d), sizes.push_back(grid[d]);
    }
    const NDArray x = nd._reshape_to(c.input(i), {.shape = one});
    c.set(i, nd.broadcast_axis(x, repeated, sizes));
  }
}

}  // namespace kaon
