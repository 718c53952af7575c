#include "kaon/ops/movement/slice.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/dispatch.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/movement/strided_copy.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/value_range.h"

namespace kaon {

constinit const OpDef Slice::def = make_op_def<Slice>();
constinit const OpDef SliceAxis::def = make_op_def<SliceAxis>();
constinit const OpDef SliceLike::def = make_op_def<SliceLike>();
constinit const OpDef SliceGrad::def = make_op_def<SliceGrad>();
constinit const OpDef SliceAssign::def = make_op_def<SliceAssign>();
constinit const OpDef SliceAssignScalar::def = make_op_def<SliceAssignScalar>();

namespace {

// Where the region begins in the array, and the dimensions of the copy with the region's strides as `src`.
struct Region {
  CopyDims dims;
  int64_t offset = 0;
  Region(const Shape& shape, const SliceRange& range) {
    const Shape full = strides_of(shape), part = strides_of(range.count);
    for (int i = 0; i < shape.ndim(); ++i) {
      offset += range.begin[i] * full[i];
      dims.push(range.count[i], range.step[i] * full[i], part[i]);
    }
    empty = range.count.size() == 0;
  }
  bool empty = false;
};

SliceRange whole(const Shape& shape) { return {Shape::filled(shape.ndim(), 0), Shape::filled(shape.ndim(), 1), shape}; }

SliceRange axis_range(const SliceAxis& op, const Shape& shape, const char* name) {
  const int a = normalize_axis(op.axis, shape.ndim(), name);
  const int64_t n = shape[a], begin = op.begin < 0 ? op.begin + n : op.begin;
  const int64_t end = op.end ? (*op.end < 0 ? *op.end + n : *op.end) : n;
  if (begin < 0 || end > n || begin > end) {
    throw ShapeError(fmt::format("[{}] range [{}, {}) does not lie in axis {} of shape {}", name, op.begin,
                                 to_text(op.end), a, shape.str()));
  }
  SliceRange range = whole(shape);
  range.begin[a] = begin, range.count[a] = end - begin;
  return range;
}

void set_gradient(GradContext& g, const SliceRange& range) {
  g.set(0, nd._backward_slice(g.head(), {.shape = g.input(0).shape(), .begin = range.begin, .step = range.step}));
}

}  // namespace

SliceRange resolve_slice(const Shape& shape, const OptionalShape& begin, const OptionalShape& end,
                         const OptionalShape& step, const char* op) {
  if (begin.ndim() != end.ndim() || (!step.empty() && step.ndim() != begin.ndim()) || begin.ndim() > shape.ndim()) {
    throw ShapeError(fmt::format("[{}] begin {}, end {} and step {} must have one entry per leading axis of {}", op,
                                 to_text(begin), to_text(end), to_text(step), shape.str()));
  }
  SliceRange range = whole(shape);
  for (int i = 0; i < begin.ndim(); ++i) {
    const int64_t n = shape[i], most = std::max<int64_t>(n, 1);  // a step of n or more takes one element anyway
    const int64_t s = step.empty() ? 1 : std::clamp(step[i].value_or(1), -most, most);
    if (s == 0) throw ValueError(fmt::format("[{}] step must not be 0", op));
    int64_t b = begin[i].value_or(s > 0 ? 0 : n - 1), e = end[i].value_or(s > 0 ? n : -1);
    if (begin[i] && b < 0) b += n;
    if (end[i] && e < 0) e += n;
    const bool inside = s > 0 ? b >= 0 && e <= n && b <= e : e >= -1 && b < n && e <= b;
    if (!inside) {
      throw ShapeError(fmt::format("[{}] range {}:{}:{} does not lie in axis {} of shape {}", op, to_text(begin[i]),
                                   to_text(end[i]), s, i, shape.str()));
    }
    range.begin[i] = b, range.step[i] = s;
    range.count[i] = s > 0 ? (e - b + s - 1) / s : (b - e - s - 1) / -s;
  }
  return range;
}

void copy_region(RunContext& run, const void* full, const Shape& shape, const SliceRange& range, void* part,
                 size_t width) {
  const Region region(shape, range);
  if (region.empty) return;
  strided_copy(run, region.dims.span(), static_cast<const char*>(full) + region.offset * int64_t(width), part, width);
}

void copy_to_region(RunContext& run, void* full, const Shape& shape, const SliceRange& range, const void* part,
                    size_t width) {
  Region region(shape, range);
  if (region.empty) return;
  for (int i = 0; i < shape.ndim(); ++i) std::swap(region.dims[i].src, region.dims[i].dst);
  strided_copy(run, region.dims.span(), part, static_cast<char*>(full) + region.offset * int64_t(width), width);
}

void fill_region(RunContext& run, void* full, const Shape& shape, const SliceRange& range, const void* element,
                 size_t width) {
  Region region(shape, range);
  if (region.empty) return;
  for (int i = 0; i < shape.ndim(); ++i) region.dims[i].dst = region.dims[i].src, region.dims[i].src = 0;
  strided_copy(run, region.dims.span(), element, static_cast<char*>(full) + region.offset * int64_t(width), width);
}

void Slice::infer(InferContext& c) const {
  c.set_output(resolve_slice(c.shape(0), begin, end, step, c.op()).count, c.dtype());
}
void Slice::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) set_gradient(g, resolve_slice(g.input(0).shape(), begin, end, step, "slice"));
}
void run_cpu(const Slice& op, KernelContext& c) {
  const TensorView& in = c.in(0);
  copy_region(c.run, in.data, in.shape, resolve_slice(in.shape, op.begin, op.end, op.step, "slice"), c.out().data,
              size_of(in.dtype));
}

void SliceAxis::infer(InferContext& c) const { c.set_output(axis_range(*this, c.shape(0), c.op()).count, c.dtype()); }
void SliceAxis::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) set_gradient(g, axis_range(*this, g.input(0).shape(), "slice_axis"));
}
void run_cpu(const SliceAxis& op, KernelContext& c) {
  const TensorView& in = c.in(0);
  copy_region(c.run, in.data, in.shape, axis_range(op, in.shape, "slice_axis"), c.out().data, size_of(in.dtype));
}

void SliceLike::infer(InferContext& c) const {
  const Shape &in = c.shape(0), &like = c.shape(1);
  Shape out = in;
  if (axes.empty()) {
    if (in.ndim() != like.ndim())
      c.fail(fmt::format("data and shape_like must have the same number of axes: {}", c.describe_inputs()));
    out = like;
  } else {
    for (int64_t axis : axes)
      out[normalize_axis(axis, in.ndim(), c.op())] = like[normalize_axis(axis, like.ndim(), c.op())];
  }
  for (int i = 0; i < in.ndim(); ++i) {
    if (out[i] > in[i])
      c.fail(fmt::format("data is smaller than shape_like along axis {}: {}", i, c.describe_inputs()));
  }
  c.set_output(out, c.dtype());
}
void SliceLike::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) set_gradient(g, whole(g.input(0).shape()));
}
void run_cpu(const SliceLike&, KernelContext& c) {
  const TensorView& in = c.in(0);
  SliceRange range = whole(in.shape);
  range.count = c.out().shape;
  copy_region(c.run, in.data, in.shape, range, c.out().data, size_of(in.dtype));
}

void SliceGrad::infer(InferContext& c) const {
  const Shape& head = c.shape(0);
  bool fits =
      shape.is_known() && head.ndim() == shape.ndim() && begin.ndim() == shape.ndim() && step.ndim() == shape.ndim();
  for (int i = 0; fits && i < shape.ndim(); ++i) {
    const int64_t last = begin[i] + (head[i] - 1) * step[i];
    fits = step[i] != 0 && (head[i] == 0 || (begin[i] >= 0 && begin[i] < shape[i] && last >= 0 && last < shape[i]));
  }
  if (!fits) {
    c.fail(fmt::format("head {} at begin {}, step {} does not lie in shape {}", head.str(), begin.str(), step.str(),
                       shape.str()));
  }
  c.set_output(shape, c.dtype());
}
void SliceGrad::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape& part = g.input(0).shape();
  OptionalShape end;
  for (int i = 0; i < part.ndim(); ++i) {
    const int64_t e = begin[i] + part[i] * step[i];
    end.push_back(e < 0 ? std::optional<int64_t>() : std::min(e, shape[i]));  // None: before the first
  }
  g.set(0, nd.slice(g.head(), begin, end, step));
}
void run_cpu(const SliceGrad& op, KernelContext& c) {
  const TensorView& out = c.out();
  if (c.in(0).size() != out.size()) zero_bytes(c.run, out.data, out.bytes());
  copy_to_region(c.run, out.data, out.shape, {op.begin, op.step, c.in(0).shape}, c.in(0).data, size_of(out.dtype));
}

void SliceAssign::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_shape(1, resolve_slice(c.shape(0), begin, end, step, c.op()).count);
  c.set_output(c.shape(0), c.dtype());
}
void SliceAssign::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  if (g.wants(0)) g.set(0, nd._slice_assign_scalar(g.head(), {.begin = begin, .end = end, .step = step, .scalar = 0}));
  if (g.wants(1)) g.set(1, nd.slice(g.head(), begin, end, step));
}
void run_cpu(const SliceAssign& op, KernelContext& c) {
  const TensorView& out = c.out();
  copy_bytes(c.run, c.in(0).data, out.data, out.bytes());
  copy_to_region(c.run, out.data, out.shape, resolve_slice(out.shape, op.begin, op.end, op.step, "_slice_assign"),
                 c.in(1).data, size_of(out.dtype));
}

void SliceAssignScalar::infer(InferContext& c) const {
  resolve_slice(c.shape(0), begin, end, step, c.op());
  expect_holds(c, "scalar", scalar, c.dtype());
  c.set_output(c.shape(0), c.dtype());
}
void SliceAssignScalar::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  g.set(0, nd._slice_assign_scalar(g.head(), {.begin = begin, .end = end, .step = step, .scalar = 0}));
}
void run_cpu(const SliceAssignScalar& op, KernelContext& c) {
  const TensorView& out = c.out();
  copy_bytes(c.run, c.in(0).data, out.data, out.bytes());
  const SliceRange range = resolve_slice(out.shape, op.begin, op.end, op.step, "_slice_assign_scalar");
  dispatch_all("_slice_assign_scalar", out.dtype, [&]<class T>() {
    const T value = T(static_cast<accumulate_t<T>>(op.scalar));
    fill_region(c.run, out.data, out.shape, range, &value, sizeof(T));
  });
}

}  // namespace kaon
