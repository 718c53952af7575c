// Shapes, parts and orders of arrays as ONNX nodes. Every shape is known, so that a slice or a reshape says numbers.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/ops/all_ops.h"

namespace kaon::onnx::exporting {

namespace {

void reshaped(Emit& e) { e.set(e.reshape(e.in(), e.result())); }

// The codes 0 and -1 are ONNX's too, and keep the batch open.
void reshape(Emit& e) {
  const auto& op = e.op<op::Reshape>();
  const bool plain = !op.reverse && !op.shape.empty() &&
                     std::all_of(op.shape.begin(), op.shape.end(), [](int64_t d) { return d >= -1; });
  const bool is_open = plain && std::count(op.shape.begin(), op.shape.end(), -1) <= 1 && e.result().size() > 0;
  if (!is_open) return reshaped(e);
  e.set(e.node("Reshape", {e.in(), e.builder().constant({op.shape.begin(), op.shape.end()})}));
}

void flatten(Emit& e) { e.set(e.node("Flatten", {e.in()}, {integer("axis", 1)})); }
void expand_dims(Emit& e) { e.set(e.node("Unsqueeze", {e.in(), e.builder().constant({e.op<op::ExpandDims>().axis})})); }

std::string transposed(Emit& e, std::vector<int64_t> axes) {
  return e.node("Transpose", {e.in()}, {integers("perm", axes)});
}

void transpose(Emit& e) {
  const auto& op = e.op<op::Transpose>();
  std::vector<int64_t> axes(op.axes.begin(), op.axes.end());
  if (axes.empty()) {
    axes.resize(size_t(e.shape().ndim()));
    std::iota(axes.rbegin(), axes.rend(), 0);
  }
  for (int64_t& a : axes) a = a < 0 ? a + e.shape().ndim() : a;
  e.set(transposed(e, axes));
}

void swap_axes(Emit& e) {
  const auto& op = e.op<op::SwapAxis>();
  const int rank = e.shape().ndim();
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[size_t(op.dim1 < 0 ? op.dim1 + rank : op.dim1)], axes[size_t(op.dim2 < 0 ? op.dim2 + rank : op.dim2)]);
  e.set(transposed(e, axes));
}

void concat(Emit& e) { e.set(e.node("Concat", e.all(), {integer("axis", e.op<op::Concat>().dim)})); }
void rnn_param_concat(Emit& e) { e.set(e.node("Concat", e.all(), {integer("axis", e.op<op::RnnParamConcat>().dim)})); }

void stack(Emit& e) {
  const int64_t axis = e.op<op::Stack>().axis;
  std::vector<std::string> parts;
  for (int i = 0; i < e.count(); ++i) parts.push_back(e.node("Unsqueeze", {e.in(i), e.builder().constant({axis})}));
  e.set(e.node("Concat", parts, {integer("axis", axis)}));
}

std::string slice(Emit& e, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
                  const std::vector<int64_t>& axes, const std::vector<int64_t>& step) {
  Builder& b = e.builder();
  return e.node("Slice", {e.in(), b.constant(begin), b.constant(end), b.constant(axes), b.constant(step)});
}

void split(Emit& e) {
  const auto& op = e.op<op::SliceChannel>();
  const int axis = op.axis < 0 ? op.axis + e.shape().ndim() : op.axis;
  const int64_t part = e.shape()[axis] / op.num_outputs;
  for (int i = 0; i < op.num_outputs; ++i) {
    std::string y = slice(e, {i * part}, {(i + 1) * part}, {axis}, {1});
    if (op.squeeze_axis)
      y = e.rank() == 1 ? e.reshape(y, e.result(i)) : e.node("Squeeze", {y, e.builder().constant({axis})});
    e.set(y, i);
  }
}

void slice_node(Emit& e) {
  const auto& op = e.op<op::Slice>();
  std::vector<int64_t> begin, end, axes, step;
  for (int i = 0; i < op.begin.ndim(); ++i) {
    const int64_t by = i < op.step.ndim() ? op.step[i].value_or(1) : 1;
    axes.push_back(i);
    step.push_back(by);
    begin.push_back(op.begin[i].value_or(by > 0 ? 0 : INT64_MAX));
    end.push_back((i < op.end.ndim() ? op.end[i] : std::nullopt).value_or(by > 0 ? INT64_MAX : INT64_MIN));
  }
  e.set(slice(e, begin, end, axes, step));
}

void slice_axis(Emit& e) {
  const auto& op = e.op<op::SliceAxis>();
  e.set(slice(e, {op.begin}, {op.end.value_or(INT64_MAX)}, {op.axis}, {1}));
}

void slice_like(Emit& e) {
  std::vector<int64_t> begin, end, axes, step;
  for (int i = 0; i < e.shape().ndim(); ++i) {
    if (e.result()[i] == e.shape()[i]) continue;
    begin.push_back(0), end.push_back(e.result()[i]), axes.push_back(i), step.push_back(1);
  }
  e.set(axes.empty() ? e.node("Identity", {e.in()}) : slice(e, begin, end, axes, step));
}

void take(Emit& e) {
  const auto& op = e.op<op::Take>();
  const int rank = e.shape().ndim(), axis = op.axis < 0 ? op.axis + rank : op.axis;
  const std::string index = e.index(1, op.mode, e.shape()[axis]);
  e.set(e.node("Gather", {e.in(), index}, {integer("axis", axis)}));
}

void expanded(Emit& e) {
  std::vector<int64_t> dims(e.result().begin(), e.result().end());
  e.set(e.node("Expand", {e.in(), e.builder().constant(dims)}));
}

void tile(Emit& e) {
  const Shape& reps = e.op<op::Tile>().reps;
  std::vector<int64_t> r(reps.begin(), reps.end());
  const int rank = std::max(e.shape().ndim(), reps.ndim());
  r.insert(r.begin(), size_t(rank - reps.ndim()), 1);
  std::string x = e.in();
  if (e.shape().ndim() < rank) {
    Shape s = Shape::filled(rank - e.shape().ndim(), 1);
    for (int64_t d : e.shape()) s.push_back(d);
    x = e.reshape(x, s);
  }
  e.set(e.node("Tile", {x, e.builder().constant(r)}));
}

void reverse(Emit& e) {
  std::vector<int64_t> axes, begin, end, step;
  for (int64_t a : e.op<op::Reverse>().axis) {
    axes.push_back(a), begin.push_back(INT64_MAX), end.push_back(INT64_MIN), step.push_back(-1);
  }
  e.set(slice(e, begin, end, axes, step));
}

void pad(Emit& e) {
  const auto& op = e.op<op::Pad>();
  std::vector<int64_t> before, after;
  for (int i = 0; i < op.pad_width.size(); i += 2)
    before.push_back(op.pad_width[i]), after.push_back(op.pad_width[i + 1]);
  before.insert(before.end(), after.begin(), after.end());
  const char* mode = op.mode == PadMode::constant ? "constant" : op.mode == PadMode::edge ? "edge" : "reflect";
  e.set(e.node("Pad", {e.in(), e.builder().constant(before), e.number(op.constant_value)}, {text("mode", mode)}));
}

void arange_like(Emit& e) {
  const auto& op = e.op<op::ArangeLike>();
  std::vector<double> values;
  for (int64_t i = 0; i < e.result().size(); ++i) values.push_back(op.start + double(i / op.repeat) * op.step);
  e.set(e.builder().initializer(NDArray::from(values.data(), values.size(), e.result(), e.result_dtype()), "range"));
}

void pick(Emit& e) {
  const auto& op = e.op<op::Pick>();
  const int rank = e.shape().ndim(), axis = op.axis < 0 ? op.axis + rank : op.axis;
  Shape one = e.shape();
  one[axis] = 1;
  const std::string index = e.reshape(e.index(1, op.mode, e.shape()[axis]), one);
  e.set(e.reshape(e.node("GatherElements", {e.in(), index}, {integer("axis", axis)}), e.result()));
}

void one_hot(Emit& e) {
  const auto& op = e.op<op::OneHot>();
  std::vector<int64_t> classes(size_t(op.depth));
  std::iota(classes.begin(), classes.end(), 0);
  Shape column = e.shape();  // OneHot would count negative indices from the end
  column.push_back(1);
  const std::string here = e.equal(e.reshape(e.index(0, IndexMode::raise, 0), column), e.builder().constant(classes));
  e.set(e.where(here, e.number(op.on_value, op.dtype), e.number(op.off_value, op.dtype)));
}

// Steps that a sequence does not have are `value`.
void sequence_mask(Emit& e) {
  const auto& op = e.op<op::SequenceMask>();
  if (!op.use_sequence_length) return e.set(e.node("Identity", {e.in()}));
  const int rank = e.shape().ndim();
  std::vector<double> steps;
  for (int64_t i = 0; i < e.shape()[op.axis]; ++i) steps.push_back(double(i));
  Shape along = Shape::filled(rank, 1), batch = along;
  along[op.axis] = e.shape()[op.axis];
  batch[1 - op.axis] = e.shape()[1 - op.axis];
  const std::string length = e.reshape(e.index(1, IndexMode::raise, 0), batch);
  e.set(e.where(e.less(e.array(steps, along, DType::int64), length), e.in(), e.number(op.value)));
}

const WriterRow movement_table[] = {
    {&op::SequenceMask::def, sequence_mask},
    {&op::Reshape::def, reshape},
    {&op::ReshapeTo::def, reshaped},
    {&op::ReshapeLike::def, reshaped},
    {&op::NumpyReshape::def, reshaped},
    {&op::NpxReshape::def, reshaped},
    {&op::Squeeze::def, reshaped},
    {&op::Flatten::def, flatten},
    {&op::ExpandDims::def, expand_dims},
    {&op::Transpose::def, transpose},
    {&op::SwapAxis::def, swap_axes},
    {&op::Concat::def, concat},
    {&op::RnnParamConcat::def, rnn_param_concat},
    {&op::Stack::def, stack},
    {&op::SliceChannel::def, split},
    {&op::Slice::def, slice_node},
    {&op::SliceAxis::def, slice_axis},
    {&op::SliceLike::def, slice_like},
    {&op::Take::def, take},
    {&op::BroadcastTo::def, expanded},
    {&op::BroadcastAxis::def, expanded},
    {&op::BroadcastLike::def, expanded},
    {&op::Tile::def, tile},
    {&op::Reverse::def, reverse},
    {&op::Pad::def, pad},
    {&op::ArangeLike::def, arange_like},
    {&op::Pick::def, pick},
    {&op::OneHot::def, one_hot},
};

}  // namespace

std::span<const WriterRow> movement_writers() { return movement_table; }

}  // namespace kaon::onnx::exporting
