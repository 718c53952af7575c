#include "kaon/ops/movement/kernels/slice_range.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/error.h"

namespace kaon::ops {

SliceRange resolve_slice(const Shape& shape, const OptionalShape& begin, const OptionalShape& end,
                         const OptionalShape& step, const char* op) {
  if (begin.ndim() != end.ndim() || (!step.empty() && step.ndim() != begin.ndim()) || begin.ndim() > shape.ndim()) {
    throw ShapeError(fmt::format("[{}] begin {}, end {} and step {} must have one entry per leading axis of {}", op,
                                 to_text(begin), to_text(end), to_text(step), shape.str()));
  }
  SliceRange range = whole_range(shape);
  for (int i = 0; i < begin.ndim(); ++i) {
    const int64_t n = shape[i], most = std::max<int64_t>(n, 1);  // a step of n or more takes one element anyway
    const int64_t s = step.empty() ? 1 : std::clamp(step[i].value_or(1), -most, most);
    if (s == 0) throw ValueError(fmt::format("[{}] step must not be 0", op));
    const int64_t first = s > 0 ? 0 : -1, last = s > 0 ? n : n - 1;  // where a range may begin and end
    const auto place = [&](std::optional<int64_t> at, int64_t otherwise) {
      return at ? std::clamp(*at < 0 ? *at + n : *at, first, last) : otherwise;
    };
    const int64_t b = place(begin[i], s > 0 ? first : last), e = place(end[i], s > 0 ? last : first);
    const bool is_empty = s > 0 ? b >= e : b <= e;
    range.begin[i] = is_empty ? 0 : b, range.step[i] = s;
    range.count[i] = is_empty ? 0 : s > 0 ? (e - b + s - 1) / s : (b - e - s - 1) / -s;
  }
  return range;
}

SliceRange resolve_axis(const Shape& shape, int axis, int64_t begin, std::optional<int64_t> end, const char* op) {
  const int a = normalize_axis(axis, shape.ndim(), op);
  const int64_t n = shape[a], b = begin < 0 ? begin + n : begin;
  const int64_t e = end ? (*end < 0 ? *end + n : *end) : n;
  if (b < 0 || e > n || b > e) {
    throw ShapeError(fmt::format("[{}] range [{}, {}) does not lie in axis {} of shape {}", op, begin, to_text(end), a,
                                 shape.str()));
  }
  SliceRange range = whole_range(shape);
  range.begin[a] = b, range.count[a] = e - b;
  return range;
}

SliceRange whole_range(const Shape& shape) {
  return {Shape::filled(shape.ndim(), 0), Shape::filled(shape.ndim(), 1), shape};
}

StridedCopy from_region(const Shape& shape, const SliceRange& range) {
  const Shape full = strides_of(shape), part = strides_of(range.count);
  StridedCopy copy;
  for (int i = 0; i < shape.ndim(); ++i) {
    copy.src += range.begin[i] * full[i];
    copy.dims.push(range.count[i], range.step[i] * full[i], part[i]);
  }
  return copy;
}

StridedCopy to_region(const Shape& shape, const SliceRange& range) {
  StridedCopy copy = from_region(shape, range);
  std::swap(copy.src, copy.dst);
  for (int i = 0; i < shape.ndim(); ++i) std::swap(copy.dims[i].src, copy.dims[i].dst);
  return copy;
}

StridedCopy fill_region(const Shape& shape, const SliceRange& range) {
  StridedCopy copy = to_region(shape, range);
  for (int i = 0; i < shape.ndim(); ++i) copy.dims[i].src = 0;
  return copy;
}

}  // namespace kaon::ops
