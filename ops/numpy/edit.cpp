// Elements set by a mask; slices deleted and inserted.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/error.h"
#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/numpy/numpy.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/value_dependent.h"
#include "kaon/ops/operator/value_range.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::MaskAssignScalar::def = make_op_def<op::MaskAssignScalar>();
constinit const OpDef op::Delete::def = make_op_def<op::Delete>();
template <InsertAt At>
constinit const OpDef op::Insert<At>::def = make_op_def<op::Insert<At>>();

namespace {

void expect_value(const InferContext& c, const char* what, double value, DType dtype) {
  expect_holds(c, what, value, dtype);
  if (!is_floating(dtype) && value != double(int64_t(value))) {
    c.fail_value(fmt::format("{} must be a whole number for {}, got {}", what, name_of(dtype), value));
  }
}

// Dimensions of 1 repeated; the new sizes may be 0.
NDArray repeated(const NDArray& x, const Shape& shape) {
  Shape axes, sizes;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (x.shape()[i] != shape[i]) axes.push_back(i), sizes.push_back(shape[i]);
  }
  return axes.empty() ? x : nd.broadcast_axis(x, axes, sizes);
}
NDArray positions_below(int64_t n) { return nd.arange(n, {.dtype = DType::int64}); }

// The array as it is edited: flattened without an axis.
struct Edited {
  Shape shape;
  int axis;
  Edited(const Shape& s, const std::optional<int>& along, const char* op)
      : shape(along ? s : Shape(s.size())), axis(along ? normalize_axis(*along, s.ndim(), op) : 0) {}
  int64_t length() const { return shape[axis]; }
  Shape with_length(int64_t n) const {
    Shape s = shape;
    return s[axis] = n, s;
  }
};

// Python's slice of an axis of n elements: first, first + step, ..., `count` of them.
struct Run {
  int64_t first, step, count;
};

Run run_of(const std::optional<int>& start, const std::optional<int>& stop, int64_t step, int64_t n) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto at = [&](const std::optional<int>& given, int64_t otherwise) {
    return given ? std::clamp<int64_t>(*given < 0 ? *given + n : *given, low, high) : otherwise;
  };
  const int64_t first = at(start, step > 0 ? low : high), end = at(stop, step > 0 ? high : low);
  const int64_t size = step > 0 ? end - first : first - end, apart = step > 0 ? step : -step;
  return {first, step, size > 0 ? (size + apart - 1) / apart : 0};
}

void expect_step(const InferContext& c, const std::optional<int>& step) {
  if (step == 0) c.fail_value("step must not be 0");
}

int64_t normalized_index(const char* op, int64_t index, int64_t n, int64_t end) {
  if (index < -n || index >= end) {
    throw IndexError(fmt::format("[{}] int_ind must be in [{}, {}), got {}", op, -n, end, index));
  }
  return index < 0 ? index + n : index;
}

}  // namespace

// --- values under a mask

void op::MaskAssignScalar::infer(InferContext& c) const {
  const Shape &data = c.shape(0), &mask = c.shape(1);
  bool fits = start_axis >= 0 && start_axis + mask.ndim() <= data.ndim();
  for (int i = 0; fits && i < mask.ndim(); ++i) fits = mask[i] == data[start_axis + i];
  if (!fits)
    c.fail(fmt::format("mask must have the sizes of data from axis {} on, got {}", start_axis, c.describe_inputs()));
  expect_value(c, "value", value, c.dtype());
  c.set_output(data, c.dtype());
}

void op::MaskAssignScalar::compose(ComposeContext& c) const {
  const NDArray &data = c.input(0), &mask = c.input(1);
  Shape with_axes = Shape::filled(data.ndim(), 1);
  for (int i = 0; i < mask.ndim(); ++i) with_axes[start_axis + i] = mask.shape()[i];
  c.set(nd.where(shaped(mask, with_axes), value, data));
}

// --- delete

namespace {

Run deleted_run(const op::Delete& op, int64_t n) {
  if (op.int_ind) return {normalized_index("_npi_delete", *op.int_ind, n, n), 1, 1};
  const Run run = run_of(op.start, op.stop, op.step.value_or(1), n);
  return run.step > 0 || run.count == 0 ? run : Run{run.first + (run.count - 1) * run.step, -run.step, run.count};
}

}  // namespace

void op::Delete::infer(InferContext& c) const {
  expect_step(c, step);
  if (!int_ind && !start && !stop && !step) c.fail_value("needs int_ind, or one of start, stop and step");
  const Edited from(c.shape(0), axis, c.op());
  c.set_output(from.with_length(from.length() - deleted_run(*this, from.length()).count), c.dtype());
}

void op::Delete::compose(ComposeContext& c) const {
  const Edited from(c.input().shape(), axis, "_npi_delete");
  const NDArray x = shaped(c.input(), from.shape);
  const int64_t n = from.length();
  const Run run = deleted_run(*this, n);
  if (run.count == 0) return c.set(x);
  if (run.step == 1) {
    const NDArray before = nd.slice_axis(x, from.axis, 0, run.first);
    return c.set(nd.concat({.dim = from.axis}, before, nd.slice_axis(x, from.axis, run.first + run.count, n)));
  }
  // of those kept behind the first one that is deleted, step - 1 at a time stand before the next
  const NDArray kept = positions_below(n - run.count), beyond = kept - double(run.first);
  const NDArray skipped = nd.minimum(beyond / double(run.step - 1) + 1, double(run.count));
  c.set(nd.take(x, kept + skipped * (beyond >= 0), {.axis = from.axis}));
}

namespace ops {

NDArray delete_at(const NDArray& data, const NDArray& positions, const std::optional<int>& axis,
                  const std::source_location& site) {
  expect_values("_npi_delete");
  const Edited from(data.shape(), axis, "_npi_delete");
  const int64_t n = from.length();
  std::vector<int64_t> kept;
  std::vector<bool> is_deleted(size_t(n), false);
  for (const int64_t i : positions.asvector<int64_t>(site)) {
    if (i < -n || i >= n) {
      throw IndexError(fmt::format("[_npi_delete] indices must be in [{}, {}), got {}", -n, n, i));
    }
    is_deleted[size_t(i < 0 ? i + n : i)] = true;
  }
  for (int64_t i = 0; i < n; ++i) {
    if (!is_deleted[size_t(i)]) kept.push_back(i);
  }
  const Shape count(kept.size());
  const NDArray chosen = nd.array(kept, count, {.dtype = DType::int64, .device = data.device()});
  return nd.take(In<NDArray>(shaped(data, from.shape), site), chosen, {.axis = from.axis});
}

}  // namespace ops

// --- insert

namespace {

// The shape of `values` with as many axes as the array, in which axis 0 moves to `axis` for a single index; with
// another number of axes, none.
std::optional<Shape> slices_shape(const Shape& values, const Edited& to, bool moves) {
  if (values.ndim() > to.shape.ndim()) return {};
  Shape s = Shape::filled(to.shape.ndim() - values.ndim(), 1);
  for (int64_t n : values) s.push_back(n);
  if (!moves) return s;
  Shape moved;
  for (int i = 1; i < s.ndim(); ++i) moved.push_back(s[i]);
  Shape out;
  for (int i = 0, k = 0; i < s.ndim(); ++i) out.push_back(i == to.axis ? s[0] : moved[k++]);
  return out;
}

// How many slices are inserted at `positions` places.
int64_t inserted_count(const std::optional<Shape>& slices, int64_t positions, int axis) {
  return slices && positions == 1 ? (*slices)[axis] : positions;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  for (int i = 0; i < to.ndim(); ++i) {
    if (from[i] != to[i] && from[i] != 1) return false;
  }
  return true;
}

}  // namespace

template <InsertAt At>
void op::Insert<At>::infer(InferContext& c) const {
  const Edited to(c.shape(0), axis, c.op());
  const int64_t n = to.length();
  int64_t positions = 1;
  if constexpr (At == InsertAt::index) {
    if (!int_ind) c.fail_value("needs int_ind");
    normalized_index(c.op(), *int_ind, n, n + 1);
  } else if constexpr (At == InsertAt::slice) {
    expect_step(c, step);
    positions = run_of(start, stop, step.value_or(1), n).count;
  } else {
    const int obj = c.num_inputs() - 1;
    c.expect_ndim(obj, 1);
    if (is_floating(c.dtype(obj)) || c.dtype(obj) == DType::boolean) {
      c.fail_dtype(fmt::format("obj must be of integers, got {}", name_of(c.dtype(obj))));
    }
    positions = c.shape(obj)[0];
  }
  std::optional<Shape> slices;
  if (val) {
    expect_value(c, "val", *val, c.dtype());
  } else {
    slices = slices_shape(c.shape(1), to, At == InsertAt::index);
    const int64_t count = slices ? inserted_count(slices, positions, to.axis) : 0;
    if (!slices || !broadcasts_to(*slices, to.with_length(count))) {
      c.fail(fmt::format("values must broadcast to {} slices along axis {}, got {}", positions, to.axis,
                         c.describe_inputs()));
    }
  }
  c.set_output(to.with_length(n + inserted_count(slices, positions, to.axis)), c.dtype());
}

template <InsertAt At>
void op::Insert<At>::compose(ComposeContext& c) const {
  const Edited to(c.input(0).shape(), axis, traits.name.data());
  const NDArray x = shaped(c.input(0), to.shape);
  const int64_t n = to.length(), count = c.output().shape[to.axis] - n;
  const Shape inserted = to.with_length(count);
  NDArray slices;
  if (val) {
    slices = nd.full(inserted, *val, {.dtype = x.dtype()});
  } else {
    const NDArray values = in_dtype(c.input(1), x.dtype());
    Shape with_axes = Shape::filled(x.ndim() - values.ndim(), 1);
    for (int64_t d : values.shape()) with_axes.push_back(d);
    slices = shaped(values, with_axes);
    if (At == InsertAt::index && to.axis > 0) slices = nd.moveaxis(slices, Shape(0), Shape(to.axis));
    slices = repeated(slices, inserted);
  }
  if constexpr (At == InsertAt::index) {
    const int64_t at = normalized_index(traits.name.data(), *int_ind, n, n + 1);
    const NDArray before = nd.slice_axis(x, to.axis, 0, at), behind = nd.slice_axis(x, to.axis, at, n);
    return c.set(nd.concat({.dim = to.axis}, before, slices, behind));
  }
  NDArray places;
  if constexpr (At == InsertAt::slice) {
    const Run run = run_of(start, stop, step.value_or(1), n);
    places = positions_below(run.count) * double(run.step) + double(run.first);
  } else {
    const NDArray given = in_dtype(c.input(c.num_inputs() - 1), DType::int64);
    places = nd.clip(given + (given < 0) * double(n), 0, double(n));
  }
  places = repeated(places, Shape(count));
  // in the order of places, what is inserted before what was there
  const NDArray order = nd.argsort(nd.concat({.dim = 0}, places, positions_below(n)), {.dtype = DType::int64});
  c.set(nd.take(nd.concat({.dim = to.axis}, slices, x), order, {.axis = to.axis}));
}

template struct op::Insert<InsertAt::index>;
template struct op::Insert<InsertAt::slice>;
template struct op::Insert<InsertAt::positions>;

}  // namespace kaon
