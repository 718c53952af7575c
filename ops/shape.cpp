#include "kaon/ops/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>  // join

#include "kaon/engine/error.h"
#include "kaon/ops/array/checked_size.h"

namespace kaon {

using namespace ops;

Shape::Shape(std::span<const int64_t> dims) {
  for (int64_t d : dims) push_back(d);
}

Shape Shape::filled(int ndim, int64_t value) {
  Shape s;
  for (int i = 0; i < ndim; ++i) s.push_back(value);
  return s;
}

void Shape::push_back(int64_t dim) {
  if (ndim_ < 0) ndim_ = 0;
  if (ndim_ == max_ndim) throw ShapeError("[Shape] an array has at most 8 dimensions");
  dims_[size_t(ndim_++)] = dim;
}

std::string Shape::str() const {
  if (ndim_ < 0) return "(unknown)";
  return fmt::format("({}{})", fmt::join(begin(), end(), ", "), ndim_ == 1 ? "," : "");
}

}  // namespace kaon

namespace kaon::ops {

std::optional<int64_t> checked_size(const Shape& shape, int64_t most) {
  int64_t product = 1;
  bool empty = false;
  for (int64_t d : shape) {
    empty |= d == 0;
    if (d != 0 && (__builtin_mul_overflow(product, d, &product) || product > most)) return std::nullopt;
  }
  return empty ? 0 : product;
}

int normalize_axis(int64_t axis, int ndim, const char* op) {
  int64_t a = axis < 0 ? axis + ndim : axis;
  if (a < 0 || a >= ndim) {
    throw ShapeError(fmt::format("[{}] axis {} is out of range for an array of {} dimensions", op, axis, ndim));
  }
  return int(a);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op) {
  if (a == b) return a;
  int n = a.ndim() > b.ndim() ? a.ndim() : b.ndim();
  Shape out = Shape::filled(n, 1);
  for (int i = 0; i < n; ++i) {
    int ia = i - (n - a.ndim()), ib = i - (n - b.ndim());
    int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1) {
      throw ShapeError(
          fmt::format("[{}] shapes {} and {} cannot be broadcast: dimension {} from the right is {} and {}", op,
                      a.str(), b.str(), n - i, da, db));
    }
    out[i] = da == 1 ? db : da;
  }
  return out;
}

}  // namespace kaon::ops
