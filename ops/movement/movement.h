// Arrays in another shape or order, parts of arrays, arrays side by side, repeated and padded.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- Operators that keep the bytes and change the shape: Reshape, reshape_like, Flatten, expand_dims, squeeze.

namespace op {
// The array under the shape that the codes in `shape` describe. `target_shape` (0: inferred, at most once) and
// `keep_highest` are the form that old files use when `shape` is absent.
struct Reshape {
  Shape shape{};
  bool reverse = false;
  Shape target_shape{};
  bool keep_highest = false;
  static constexpr OpTraits traits{.name = "Reshape", .inplace = 0, .view = true, .aliases = Names("reshape")};
  static constexpr void fields(auto field) {
    field("shape", &Reshape::shape);
    field("reverse", &Reshape::reverse);
    field("target_shape", &Reshape::target_shape);
    field("keep_highest", &Reshape::keep_highest);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0); }
};

// The array under the shape `newshape`, as NumPy means it: one dimension may be -1.
struct NumpyReshape {
  Shape newshape{};
  Word order{"C"};
  static constexpr OpTraits traits{.name = "_np_reshape", .inputs = Names("a")};
  static constexpr void fields(auto field) {
    field("newshape", &NumpyReshape::newshape, true);
    field("order", &NumpyReshape::order);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The same with more codes: -2 keeps a dimension, -3 leaves one of size 1 out, -4 keeps all that are left, -5 is the
// product of two, -6 splits one into the two numbers that follow, of which one may be -1. reverse: from the last
// dimension on.
struct NpxReshape {
  Shape newshape{};
  bool reverse = false;
  Word order{"C"};
  static constexpr OpTraits traits{.name = "_npx_reshape", .inputs = Names("a"), .aliases = Names("_npi_reshape")};
  static constexpr void fields(auto field) {
    field("newshape", &NpxReshape::newshape, true);
    field("reverse", &NpxReshape::reverse);
    field("order", &NpxReshape::order);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// lhs under the shape of rhs. With ranges, the axes [lhs_begin, lhs_end) of lhs are replaced by the dimensions
// [rhs_begin, rhs_end) of rhs; negative positions count from the end.
struct ReshapeLike {
  std::optional<int> lhs_begin{};
  std::optional<int> lhs_end{};
  std::optional<int> rhs_begin{};
  std::optional<int> rhs_end{};
  static constexpr OpTraits traits{.name = "reshape_like", .inputs = Names("lhs", "rhs"), .inplace = 0, .view = true};
  static constexpr void fields(auto field) {
    field("lhs_begin", &ReshapeLike::lhs_begin);
    field("lhs_end", &ReshapeLike::lhs_end);
    field("rhs_begin", &ReshapeLike::rhs_begin);
    field("rhs_end", &ReshapeLike::rhs_end);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0); }
};

// (n, a, b, ...) to (n, a * b * ...).
struct Flatten {
  static constexpr OpTraits traits{.name = "Flatten", .inplace = 0, .view = true, .aliases = Names("flatten")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0); }
};

// A dimension of 1 before `axis`, which counts over the result's axes.
struct ExpandDims {
  int axis = 0;
  static constexpr OpTraits traits{.name = "expand_dims", .inplace = 0, .view = true};
  static constexpr void fields(auto field) { field("axis", &ExpandDims::axis, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0); }
};

// Without the given axes, which must have size 1; without all axes of size 1 where no list is given. One axis stays.
struct Squeeze {
  std::optional<Shape> axis{};
  static constexpr OpTraits traits{.name = "squeeze", .inplace = 0, .view = true};
  static constexpr void fields(auto field) { field("axis", &Squeeze::axis); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0); }
};

// The array under exactly this shape, 0 meaning 0: the gradient of all of these.
struct ReshapeTo {
  Shape shape{};
  static constexpr OpTraits traits{.name = "_reshape_to", .inplace = 0, .view = true, .in_mxnet = false};
  static constexpr void fields(auto field) { field("shape", &ReshapeTo::shape, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0); }
};
}  // namespace op
void run_cpu(const op::Reshape& op, KernelContext& c);
void run_cuda(const op::Reshape& op, KernelContext& c);
void run_cpu(const op::ReshapeLike& op, KernelContext& c);
void run_cuda(const op::ReshapeLike& op, KernelContext& c);
void run_cpu(const op::Flatten& op, KernelContext& c);
void run_cuda(const op::Flatten& op, KernelContext& c);
void run_cpu(const op::ExpandDims& op, KernelContext& c);
void run_cuda(const op::ExpandDims& op, KernelContext& c);
void run_cpu(const op::Squeeze& op, KernelContext& c);
void run_cuda(const op::Squeeze& op, KernelContext& c);
void run_cpu(const op::ReshapeTo& op, KernelContext& c);
void run_cuda(const op::ReshapeTo& op, KernelContext& c);

// --- transpose and SwapAxis.

namespace op {
// Axis i of the result is axis axes[i] of the array; no axes: all reversed.
struct Transpose {
  Shape axes{};
  static constexpr OpTraits traits{.name = "transpose", .recomputable = true};
  static constexpr void fields(auto field) { field("axes", &Transpose::axes); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return !axes.empty() && q.is_first(axes[0]); }
};

// The array with two axes exchanged.
struct SwapAxis {
  int dim1 = 0;
  int dim2 = 0;
  static constexpr OpTraits traits{.name = "SwapAxis", .recomputable = true, .aliases = Names("swapaxes")};
  static constexpr void fields(auto field) {
    field("dim1", &SwapAxis::dim1);
    field("dim2", &SwapAxis::dim2);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return !q.is_first(dim1) && !q.is_first(dim2); }
};
}  // namespace op
void run_cpu(const op::Transpose& op, KernelContext& c);
void run_cuda(const op::Transpose& op, KernelContext& c);
void run_cpu(const op::SwapAxis& op, KernelContext& c);
void run_cuda(const op::SwapAxis& op, KernelContext& c);

// --- slice, slice_axis, slice_like and their gradient.

namespace op {
// data[begin:end:step] on the leading axes, as in NumPy: negative positions count from the end, None is the default of
// the direction, positions beyond an end are clamped to it, and a range against the direction of the step is empty.
struct Slice {
  OptionalShape begin{};
  OptionalShape end{};
  OptionalShape step{};
  static constexpr OpTraits traits{.name = "slice", .recomputable = true};
  static constexpr void fields(auto field) {
    field("begin", &Slice::begin, true);
    field("end", &Slice::end, true);
    field("step", &Slice::step);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const;
};

// data[begin:end] along one axis; no end: to the last element. ShapeError for positions beyond the axis and for begin
// after end, as in MXNet.
struct SliceAxis {
  int axis = 0;
  int64_t begin = 0;
  std::optional<int64_t> end{};
  static constexpr OpTraits traits{.name = "slice_axis", .recomputable = true};
  static constexpr void fields(auto field) {
    field("axis", &SliceAxis::axis, true);
    field("begin", &SliceAxis::begin, true);
    field("end", &SliceAxis::end, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis); }
};

// The leading part of data, with the sizes of shape_like along `axes` (none: along all). Negative axes count from the
// end of data, for shape_like too, as in MXNet. ShapeError where data is smaller.
struct SliceLike {
  Shape axes{};
  static constexpr OpTraits traits{.name = "slice_like", .inputs = Names("data", "shape_like"), .recomputable = true};
  static constexpr void fields(auto field) { field("axes", &SliceLike::axes); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.has_rows(0) && !axes.empty() && !q.names_first(axes); }
};

// Gradient of a slice: zeros of `shape` with head at begin, begin + step, ... of each axis.
struct SliceGrad {
  Shape shape{};
  Shape begin{};
  Shape step{};
  static constexpr OpTraits traits{.name = "_backward_slice", .inputs = Names("head"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("shape", &SliceGrad::shape, true);
    field("begin", &SliceGrad::begin, true);
    field("step", &SliceGrad::step, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};

// data with data[begin:end:step] replaced: by rhs, which has the region's shape, or by a number.
struct SliceAssign {
  OptionalShape begin{};
  OptionalShape end{};
  OptionalShape step{};
  static constexpr OpTraits traits{.name = "_slice_assign", .inputs = Names("lhs", "rhs"), .inplace = 0};
  static constexpr void fields(auto field) {
    field("begin", &SliceAssign::begin, true);
    field("end", &SliceAssign::end, true);
    field("step", &SliceAssign::step);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const;
};

struct SliceAssignScalar {
  OptionalShape begin{};
  OptionalShape end{};
  OptionalShape step{};
  double scalar = 0;
  static constexpr OpTraits traits{.name = "_slice_assign_scalar", .inplace = 0};
  static constexpr void fields(auto field) {
    field("begin", &SliceAssignScalar::begin, true);
    field("end", &SliceAssignScalar::end, true);
    field("step", &SliceAssignScalar::step);
    field("scalar", &SliceAssignScalar::scalar);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const;
};
}  // namespace op
void run_cpu(const op::Slice& op, KernelContext& c);
void run_cuda(const op::Slice& op, KernelContext& c);
void run_cpu(const op::SliceAxis& op, KernelContext& c);
void run_cuda(const op::SliceAxis& op, KernelContext& c);
void run_cpu(const op::SliceLike& op, KernelContext& c);
void run_cuda(const op::SliceLike& op, KernelContext& c);
void run_cpu(const op::SliceGrad& op, KernelContext& c);
void run_cuda(const op::SliceGrad& op, KernelContext& c);
void run_cpu(const op::SliceAssign& op, KernelContext& c);
void run_cuda(const op::SliceAssign& op, KernelContext& c);
void run_cpu(const op::SliceAssignScalar& op, KernelContext& c);
void run_cuda(const op::SliceAssignScalar& op, KernelContext& c);

// --- Concat, stack and their inverse, SliceChannel (split).

namespace op {
// Arrays one after the other along axis `dim`; their other dimensions are equal.
struct Concat {
  int dim = 1;
  int num_args = 0;  // number of arrays; set by the call
  static constexpr OpTraits traits{
      .name = "Concat", .inputs = Names("arg"), .variadic = true, .recomputable = true, .aliases = Names("concat")};
  static constexpr void fields(auto field) {
    field("num_args", &Concat::num_args, true);
    field("dim", &Concat::dim);
  }
  static const OpDef def;
  int num_inputs() const { return num_args > 0 ? num_args : -1; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(dim); }
};

// Arrays of one shape along a new axis.
struct Stack {
  int axis = 0;
  int num_args = 0;  // number of arrays; set by the call
  static constexpr OpTraits traits{.name = "stack", .inputs = Names("arg"), .variadic = true, .recomputable = true};
  static constexpr void fields(auto field) {
    field("num_args", &Stack::num_args, true);
    field("axis", &Stack::axis);
  }
  static const OpDef def;
  int num_inputs() const { return num_args > 0 ? num_args : -1; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis, q.ndim() + 1); }
};

// num_outputs equal parts along an axis; `squeeze_axis` drops the axis, which must then have size num_outputs.
struct SliceChannel {
  int num_outputs = 1;
  int axis = 1;
  bool squeeze_axis = false;
  static constexpr OpTraits traits{.name = "SliceChannel", .recomputable = true, .aliases = Names("split")};
  static constexpr void fields(auto field) {
    field("num_outputs", &SliceChannel::num_outputs, true);
    field("axis", &SliceChannel::axis);
    field("squeeze_axis", &SliceChannel::squeeze_axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis); }
};
}  // namespace op
void run_cpu(const op::Concat& op, KernelContext& c);
void run_cuda(const op::Concat& op, KernelContext& c);
void run_cpu(const op::Stack& op, KernelContext& c);
void run_cuda(const op::Stack& op, KernelContext& c);
void run_cpu(const op::SliceChannel& op, KernelContext& c);
void run_cuda(const op::SliceChannel& op, KernelContext& c);

// --- repeat, tile and reverse.

namespace op {
// Each element `repeats` times in a row along `axis`; without an axis, of the flattened array.
struct Repeat {
  int repeats = 1;
  std::optional<int> axis{};
  static constexpr OpTraits traits{.name = "repeat", .recomputable = true};
  static constexpr void fields(auto field) {
    field("repeats", &Repeat::repeats, true);
    field("axis", &Repeat::axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return axis && !q.is_first(*axis); }
};

// The whole array reps[i] times along axis i; shapes are padded with 1 on the left to equal length.
struct Tile {
  Shape reps{};
  static constexpr OpTraits traits{.name = "tile", .recomputable = true};
  static constexpr void fields(auto field) { field("reps", &Tile::reps, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const {
    return reps.ndim() < q.ndim() || (reps.ndim() == q.ndim() && reps[0] == 1);
  }
};

// The elements in opposite order along each of the axes.
struct Reverse {
  Shape axis{};
  static constexpr OpTraits traits{.name = "reverse", .recomputable = true, .aliases = Names("flip")};
  static constexpr void fields(auto field) { field("axis", &Reverse::axis, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return !axis.empty() && !q.names_first(axis); }
};
}  // namespace op
void run_cpu(const op::Repeat& op, KernelContext& c);
void run_cuda(const op::Repeat& op, KernelContext& c);
void run_cpu(const op::Tile& op, KernelContext& c);
void run_cuda(const op::Tile& op, KernelContext& c);
void run_cpu(const op::Reverse& op, KernelContext& c);
void run_cuda(const op::Reverse& op, KernelContext& c);

// --- broadcast_to, broadcast_axis and broadcast_like: dimensions of 1 repeated.

namespace op {
// The array repeated to `shape`; 0 keeps a dimension, others must be 1 or equal. Missing leading axes count as 1.
struct BroadcastTo {
  Shape shape{};
  static constexpr OpTraits traits{.name = "broadcast_to", .recomputable = true};
  static constexpr void fields(auto field) { field("shape", &BroadcastTo::shape); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
  bool keeps_rows(const RowQuery& q) const { return shape.ndim() == q.ndim() && shape[0] == 0; }
};

// Axis axis[i], which has size 1, repeated to size[i].
struct BroadcastAxis {
  Shape axis{};
  Shape size{};
  static constexpr OpTraits traits{.name = "broadcast_axis", .recomputable = true, .aliases = Names("broadcast_axes")};
  static constexpr void fields(auto field) {
    field("axis", &BroadcastAxis::axis);
    field("size", &BroadcastAxis::size);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ops::FusedForms fused_forms(const ops::RegisterKernels& k) const;
  std::optional<ops::CudaExpression> cuda_expression(const ops::ExpressionArgs& a) const;
  bool keeps_rows(const RowQuery& q) const { return !axis.empty() && !q.names_first(axis); }
};

// lhs repeated to the shape of rhs, or along lhs_axes to the sizes of rhs_axes.
struct BroadcastLike {
  std::optional<Shape> lhs_axes{};
  std::optional<Shape> rhs_axes{};
  static constexpr OpTraits traits{.name = "broadcast_like", .inputs = Names("lhs", "rhs"), .recomputable = true};
  static constexpr void fields(auto field) {
    field("lhs_axes", &BroadcastLike::lhs_axes);
    field("rhs_axes", &BroadcastLike::rhs_axes);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && q.ndim() == q.ndim(1) && !lhs_axes; }
};
}  // namespace op
void run_cpu(const op::BroadcastTo& op, KernelContext& c);
void run_cuda(const op::BroadcastTo& op, KernelContext& c);
void run_cpu(const op::BroadcastAxis& op, KernelContext& c);
void run_cuda(const op::BroadcastAxis& op, KernelContext& c);
void run_cpu(const op::BroadcastLike& op, KernelContext& c);
void run_cuda(const op::BroadcastLike& op, KernelContext& c);

// --- Pad: elements added around an array.

enum class PadMode : uint8_t { constant, edge, reflect };
constexpr std::array<std::string_view, 3> enum_names(PadMode) { return {"constant", "edge", "reflect"}; }

namespace op {
// pad_width (before, after) for each axis: filled with constant_value, the nearest element, or the mirror image without
// the edge element (then each width is less than the axis).
struct Pad {
  PadMode mode = PadMode::constant;
  IntTuple pad_width{};
  double constant_value = 0;
  static constexpr OpTraits traits{.name = "Pad", .recomputable = true, .aliases = Names("pad")};
  static constexpr void fields(auto field) {
    field("mode", &Pad::mode, true);
    field("pad_width", &Pad::pad_width, true);
    field("constant_value", &Pad::constant_value);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery&) const { return pad_width[0] == 0 && pad_width[1] == 0; }
};

// Gradient of Pad in the modes edge and reflect: every element of head is added to the element it was copied from.
struct PadGrad {
  PadMode mode = PadMode::edge;
  IntTuple pad_width{};
  static constexpr OpTraits traits{.name = "_backward_pad", .inputs = Names("head"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("mode", &PadGrad::mode, true);
    field("pad_width", &PadGrad::pad_width, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
}  // namespace op
void run_cpu(const op::Pad& op, KernelContext& c);
void run_cuda(const op::Pad& op, KernelContext& c);
void run_cpu(const op::PadGrad& op, KernelContext& c);
void run_cuda(const op::PadGrad& op, KernelContext& c);

}  // namespace kaon
