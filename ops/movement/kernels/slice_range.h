// The regions that slices name, and the copies to and from them.
#pragma once

#include <optional>

#include "kaon/ops/attributes.h"
#include "kaon/ops/kernels/strided_copy.h"

namespace kaon::ops {

// Elements begin, begin + step, ... of each axis.
struct SliceRange {
  Shape begin{};
  Shape step{};
  Shape count{};
};

// MXNet's begin, end and step for an array: negative positions count from the end, None means the whole axis, missing
// trailing axes too. With a negative step the default runs from the last element to the first. As in NumPy, positions
// beyond an end of the axis are clamped to that end, and a range against the direction of the step is empty. Throws
// ShapeError when the numbers of entries do not fit, ValueError for a step of 0.
SliceRange resolve_slice(const Shape& shape, const OptionalShape& begin, const OptionalShape& end,
                         const OptionalShape& step, const char* op);
// Positions begin to end of one axis, counted likewise. No end: to the last. Throws ShapeError for positions outside.
SliceRange resolve_axis(const Shape& shape, int axis, int64_t begin, std::optional<int64_t> end, const char* op);
SliceRange whole_range(const Shape& shape);

// Between a region of an array and a dense array of its size; from one element to a region.
StridedCopy from_region(const Shape& shape, const SliceRange& range);
StridedCopy to_region(const Shape& shape, const SliceRange& range);
StridedCopy fill_region(const Shape& shape, const SliceRange& range);

}  // namespace kaon::ops
