// slice, slice_axis, slice_like and their gradient.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

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
void run_cpu(const Slice& op, KernelContext& c);
void run_cuda(const Slice& op, KernelContext& c);

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
void run_cpu(const SliceAxis& op, KernelContext& c);
void run_cuda(const SliceAxis& op, KernelContext& c);

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
void run_cpu(const SliceLike& op, KernelContext& c);
void run_cuda(const SliceLike& op, KernelContext& c);

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
void run_cpu(const SliceGrad& op, KernelContext& c);
void run_cuda(const SliceGrad& op, KernelContext& c);

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
void run_cpu(const SliceAssign& op, KernelContext& c);
void run_cuda(const SliceAssign& op, KernelContext& c);

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
void run_cpu(const SliceAssignScalar& op, KernelContext& c);
void run_cuda(const SliceAssignScalar& op, KernelContext& c);

}  // namespace kaon
