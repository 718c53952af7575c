// slice, slice_axis, slice_like and their gradient.
#pragma once

#include "kaon/ops/attributes.h"
#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

// Elements begin, begin + step, ... of each axis.
struct SliceRange {
  Shape begin{};
  Shape step{};
  Shape count{};
};

// MXNet's begin, end and step for an array: negative positions count from the end, None means the whole axis, missing
// trailing axes too. With a negative step the default runs from the last element to the first.
// Throws ShapeError or ValueError for what lies outside.
SliceRange resolve_slice(const Shape& shape, const OptionalShape& begin, const OptionalShape& end,
                         const OptionalShape& step, const char* op);

// Copies between a region of an array and a dense array of its size.
void copy_region(RunContext& run, const void* full, const Shape& shape, const SliceRange& range, void* part,
                 size_t width);
void copy_to_region(RunContext& run, void* full, const Shape& shape, const SliceRange& range, const void* part,
                    size_t width);
// Sets a region to one element.
void fill_region(RunContext& run, void* full, const Shape& shape, const SliceRange& range, const void* element,
                 size_t width);

// data[begin:end:step] on the leading axes.
struct Slice {
  OptionalShape begin{};
  OptionalShape end{};
  OptionalShape step{};
  static constexpr OpTraits traits{.name = "slice"};
  static constexpr auto fields = std::tuple{Field{"begin", &Slice::begin, true}, Field{"end", &Slice::end, true},
                                            Field{"step", &Slice::step}};
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const Slice& op, KernelContext& c);

// data[begin:end] along one axis; no end: to the last element.
struct SliceAxis {
  int axis = 0;
  int64_t begin = 0;
  std::optional<int64_t> end{};
  static constexpr OpTraits traits{.name = "slice_axis"};
  static constexpr auto fields =
      std::tuple{Field{"axis", &SliceAxis::axis, true}, Field{"begin", &SliceAxis::begin, true},
                 Field{"end", &SliceAxis::end, true}};
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const SliceAxis& op, KernelContext& c);

// The leading part of data with the size of shape_like along `axes` (none: along all).
struct SliceLike {
  Shape axes{};
  static constexpr OpTraits traits{.name = "slice_like", .inputs = Names("data", "shape_like")};
  static constexpr auto fields = std::tuple{Field{"axes", &SliceLike::axes}};
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const SliceLike& op, KernelContext& c);

// Gradient of a slice: zeros of `shape` with head at begin, begin + step, ... of each axis.
struct SliceGrad {
  Shape shape{};
  Shape begin{};
  Shape step{};
  static constexpr OpTraits traits{.name = "_backward_slice", .inputs = Names("head"), .in_mxnet = false};
  static constexpr auto fields =
      std::tuple{Field{"shape", &SliceGrad::shape, true}, Field{"begin", &SliceGrad::begin, true},
                 Field{"step", &SliceGrad::step, true}};
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const SliceGrad& op, KernelContext& c);

// data with data[begin:end:step] replaced: by rhs, which has the region's shape, or by a number.
struct SliceAssign {
  OptionalShape begin{};
  OptionalShape end{};
  OptionalShape step{};
  static constexpr OpTraits traits{.name = "_slice_assign", .inputs = Names("lhs", "rhs"), .inplace = 0};
  static constexpr auto fields = std::tuple{Field{"begin", &SliceAssign::begin, true},
                                            Field{"end", &SliceAssign::end, true}, Field{"step", &SliceAssign::step}};
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const SliceAssign& op, KernelContext& c);

struct SliceAssignScalar {
  OptionalShape begin{};
  OptionalShape end{};
  OptionalShape step{};
  double scalar = 0;
  static constexpr OpTraits traits{.name = "_slice_assign_scalar", .inplace = 0};
  static constexpr auto fields =
      std::tuple{Field{"begin", &SliceAssignScalar::begin, true}, Field{"end", &SliceAssignScalar::end, true},
                 Field{"step", &SliceAssignScalar::step}, Field{"scalar", &SliceAssignScalar::scalar}};
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const SliceAssignScalar& op, KernelContext& c);

}  // namespace kaon
