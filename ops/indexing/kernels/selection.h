// NumPy's indexing of arrays and Symbols, in terms of slices, reshapes, take, gather_nd and their inverses.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kaon/ops/functions.h"
#include "kaon/ops/movement/kernels/slice_range.h"

namespace kaon::ops {

// What a list of indices means for an array of a certain shape: a slice of all axes; without the axes of positions and
// with new axes; then what arrays choose along axes of that.
template <class A>
class Selection {
 public:
  using Indices = typename ArrayPart<A>::Indices;
  struct Chosen {
    int axis;  // of shape(); a mask begins there
    const A* array;
    bool is_mask;
  };

  // Throws IndexError, TypeError and ValueError with the line of the call.
  Selection(const Shape& shape, const Indices& indices) : site(indices[0].site), of_(shape) {
    try {
      resolve(indices);
    } catch (...) {
      std::rethrow_exception(add_context(std::current_exception(), describe_call({"index", site})));
    }
  }

  const std::source_location site;
  OptionalShape begin, end, step;  // of the slice
  Shape dropped, added;            // axes of the slice without size in the result; axes of shape() that are new
  std::vector<Chosen> chosen;
  int target = 0;  // the axis of the result at which the arrays' axes come

  const Shape& count() const { return range_.count; }  // the slice's shape
  const Shape& shape() const { return shape_; }        // without and with those axes
  bool is_whole() const { return range_.count == of_ && is_dense(); }
  bool has_mask() const { return !chosen.empty() && chosen[0].is_mask; }

  // Whether the elements of the slice are one after another: one position on each of the leading axes, then a range
  // with step 1, then whole axes.
  bool is_dense() const {
    int axis = 0;
    while (axis < of_.ndim() && range_.count[axis] == 1) ++axis;
    if (axis < of_.ndim() && range_.step[axis] != 1) return false;
    for (++axis; axis < of_.ndim(); ++axis) {
      if (range_.count[axis] != of_[axis] || (range_.step[axis] != 1 && range_.count[axis] != 1)) return false;
    }
    return true;
  }
  int64_t first_element() const {
    int64_t at = 0;
    for (int d = 0; d < of_.ndim(); ++d) at = at * of_[d] + range_.begin[d];
    return shape_.size() ? at : 0;
  }

 private:
  using I = Index<A>;
  using Kind = typename I::Kind;
  static constexpr int new_axis = -1;

  void resolve(const Indices& indices) {
    check(indices);
    add_all(indices);
    range_ = resolve_slice(of_, begin, end, step, "index");
    for (const int axis : kept_) shape_.push_back(axis == new_axis ? 1 : range_.count[axis]);
    if (shape_.empty() && !of_.empty()) shape_ = Shape(1);
  }

  static bool has_array(const I& i) { return i.kind == Kind::array || i.kind == Kind::mask; }
  static bool is_mask(const I& i) {
    return i.kind == Kind::mask || (i.kind == Kind::array && i.array->dtype() == DType::boolean);
  }
  // How many axes of the array it is for.
  static int axes_of(const I& i) {
    if (i.kind == Kind::none || i.kind == Kind::ellipsis || i.kind == Kind::newaxis) return 0;
    return is_mask(i) ? i.array->ndim() : 1;
  }

  void check(const Indices& indices) {
    int ellipses = 0;
    for (const I& i : indices) {
      num_axes_ += axes_of(i);
      ellipses += i.kind == Kind::ellipsis;
    }
    if (num_axes_ > of_.ndim()) {
      throw IndexError(fmt::format("[index] indices for {} axes of an array of shape {}", num_axes_, of_.str()));
    }
    if (ellipses > 1) throw IndexError("[index] more than one ellipsis");
    const auto arrays = std::count_if(indices.begin(), indices.end(), has_array);
    if (arrays > 1 && std::any_of(indices.begin(), indices.end(), is_mask)) {
      throw TypeError("[index] a mask beside another array; give positions, or index twice");
    }
  }

  void add_all(const Indices& indices) {
    // As in NumPy: where there is an array, positions count among the arrays, and where the arrays are not side by
    // side, their axes come first.
    const bool has_arrays = std::any_of(indices.begin(), indices.end(), has_array);
    bool in_group = false, has_group = false, is_apart = false;
    for (const I& i : indices) {
      if (i.kind == Kind::none) continue;
      const bool chooses = has_arrays && (i.kind == Kind::position || has_array(i));
      if (chooses && !in_group) {
        is_apart |= std::exchange(has_group, true);
        target = int(kept_.size());
      }
      in_group = chooses;
      switch (i.kind) {
        case Kind::position: add_position(*i.range.begin); break;
        case Kind::range: add(i.range), kept_.push_back(begin.ndim() - 1); break;
        case Kind::ellipsis: add_whole(of_.ndim() - num_axes_); break;
        case Kind::newaxis: added.push_back(int64_t(kept_.size())), kept_.push_back(new_axis); break;
        default: add_array(i);
      }
    }
    add_whole(of_.ndim() - begin.ndim());
    if (is_apart) target = 0;
  }

  void add(const Range& r) { begin.push_back(r.begin), end.push_back(r.end), step.push_back(r.step); }

  void add_whole(int axes) {
    for (; axes > 0; --axes) add({}), kept_.push_back(begin.ndim() - 1);
  }

  void add_position(int64_t position) {
    const int axis = begin.ndim();
    const int64_t n = of_[axis], at = position < 0 ? position + n : position;
    if (at < 0 || at >= n) {
      throw IndexError(fmt::format("[index] position {} is out of range for axis {} of an array of shape {}", position,
                                   axis, of_.str()));
    }
    dropped.push_back(axis);
    add(kaon::range(at, at + 1));
  }

  void add_array(const I& i) {
    const int axis = begin.ndim();
    const A& a = *i.array;
    if (is_mask(i)) {
      bool fits = a.ndim() > 0;
      for (int d = 0; d < a.ndim(); ++d) fits &= a.shape()[d] == of_[axis + d];
      if (!fits) {
        throw IndexError(fmt::format("[index] a mask of shape {} does not fit at axis {} of an array of shape {}",
                                     a.shape().str(), axis, of_.str()));
      }
    } else if (is_floating(a.dtype())) {
      throw TypeError(
          fmt::format("[index] positions must be integers, got an array of {}; cast it, or write mask(...) "
                      "for the elements at which it is not 0",
                      name_of(a.dtype())));
    }
    chosen.push_back({int(kept_.size()), &a, is_mask(i)});
    add_whole(axes_of(i));
  }

  const Shape of_;
  int num_axes_ = 0;
  std::vector<int> kept_;  // axes of the slice
  SliceRange range_;
  Shape shape_;
};

// The operators that read and replace what a selection names. `device` is of constants; none in a trace.
template <class A>
class SelectedPart {
 public:
  SelectedPart(const Functions<A>& f, const Selection<A>& selection, std::optional<Device> device)
      : F(f), s_(selection), device_(device) {}

  // The elements of x; those of the slice are `part`, if that is known.
  A read(const A& x) const { return choose(basic(x)); }
  A choose(const A& part) const {
    if (s_.chosen.empty()) return part;
    return s_.has_mask() ? masked(part) : gathered(part);
  }

  // All elements of `x`, the selected ones replaced by `value`: what call(operator, target, inputs...) returns, where
  // `target` is the input whose elements are replaced, x or reshape(x, shape); with x's shape.
  template <class Reshape, class Call>
  A replace(const A& x, const Arg<A>& value, Reshape&& reshape, Call&& call) const {
    const Shape shape = x.shape();
    if (shape.size() == 0) return call(op::Copy{}, x, x);
    if (s_.chosen.empty()) {
      const A values = reshaped(values_of(value, x, s_.shape()), s_.count());
      return call(op::SliceAssign{.begin = s_.begin, .end = s_.end, .step = s_.step}, x, x, values);
    }
    if (is_where(x, value)) return call(op::Where{}, x, wide_mask(x), values_of(value, x, shape), x);
    if (s_.chosen.size() == 1 && !s_.has_mask() && s_.chosen[0].axis == 0 && s_.is_whole() && s_.shape() == shape) {
      const A& rows = *s_.chosen[0].array;
      Shape part = rows.shape(), tuples(1);
      for (const int64_t d : rows.shape()) tuples.push_back(d);
      for (int d = 1; d < x.ndim(); ++d) part.push_back(shape[d]);
      return call(op::ScatterSetNd{.shape = shape}, x, x, values_of(value, x, part), reshaped(rows, tuples));
    }
    // by the numbers of the elements
    const Shape all(x.size());
    const A numbers = F.arange(double(x.size()), {.dtype = DType::int64, .ctx = device_}, s_.site);
    const A elements = read(reshaped(numbers, shape));
    const A values = reshaped(values_of(value, x, elements.shape()), Shape(elements.size()));
    const A flat = reshape(x, all);
    const A tuples = reshaped(elements, Shape(1, elements.size()));
    return reshape(call(op::ScatterSetNd{.shape = all}, flat, flat, values, tuples), shape);
  }

  // Whether a mask alone chooses, so that an update with a number is one of every element, of which the mask takes
  // some.
  bool is_masked_whole(const A& x) const { return s_.has_mask() && s_.is_whole() && s_.shape() == x.shape(); }
  A take_masked(const A& x, const A& updated) const { return F.where(in(wide_mask(x)), updated, x); }

  A reshaped(const A& x, const Shape& shape) const {
    if (x.shape() == shape) return x;
    const bool has_zero = std::find(shape.begin(), shape.end(), 0) != shape.end();  // a code of reshape
    return has_zero || x.shape().size() == 0 ? F._reshape_to(in(x), {.shape = shape}) : F.reshape(in(x), shape);
  }

 private:
  In<A> in(const A& x) const { return In<A>(x, s_.site); }

  // The mask in the shape of x.
  A wide_mask(const A& x) const {
    const auto [axis, mask, _] = s_.chosen[0];
    Shape padded = Shape::filled(x.ndim(), 1);
    for (int d = 0; d < mask->ndim(); ++d) padded[axis + d] = mask->shape()[d];
    return F.broadcast_to(in(reshaped(*mask, padded)), x.shape());
  }

  // By operators that hold for any size of the other axes.
  A basic(const A& x) const {
    A part = s_.is_whole() ? x : F.slice(in(x), s_.begin, s_.end, s_.step);
    if (!s_.dropped.empty() && s_.dropped.ndim() == x.ndim()) return reshaped(part, s_.shape());
    if (!s_.dropped.empty()) part = F.squeeze(in(part), s_.dropped);
    for (const int64_t axis : s_.added) part = F.expand_dims(in(part), int(axis));
    return part;
  }

  // With axes of size 1 in front.
  A with_ndim(const A& x, int ndim) const {
    Shape padded = Shape::filled(ndim, 1);
    for (int d = 0; d < x.ndim(); ++d) padded[ndim - x.ndim() + d] = x.shape()[d];
    return reshaped(x, padded);
  }

  // The axes from, ..., from + count - 1 moved to `to`.
  A moved(const A& x, int from, int count, int to) const {
    if (from == to || count == 0) return x;
    std::vector<int> axes;
    for (int d = 0; d < x.ndim(); ++d) {
      if (d < from || d >= from + count) axes.push_back(d);
    }
    for (int d = 0; d < count; ++d) axes.insert(axes.begin() + to + d, from + d);
    Shape order;
    for (const int d : axes) order.push_back(d);
    return F.transpose(in(x), order);
  }

  // Along the axes of one mask.
  A masked(const A& x) const {
    const auto [axis, mask, _] = s_.chosen[0];
    Shape merged;
    for (int d = 0; d < axis; ++d) merged.push_back(x.shape()[d]);
    merged.push_back(mask->size());
    for (int d = axis + mask->ndim(); d < x.ndim(); ++d) merged.push_back(x.shape()[d]);
    const A flat = reshaped(*mask, Shape(mask->size()));
    return moved(F.boolean_mask(in(reshaped(x, merged)), flat, axis), axis, 1, s_.target);
  }

  A gathered(const A& x) const {
    if (s_.chosen.size() == 1) {
      const auto [axis, positions, _] = s_.chosen[0];
      const A taken = F.take(in(x), *positions, {.axis = axis, .mode = IndexMode::raise});
      return moved(taken, axis, positions->ndim(), s_.target);
    }
    Shape common = s_.chosen[0].array->shape(), order;
    for (const auto& c : s_.chosen) common = broadcast_shapes(common, c.array->shape(), "index");
    std::vector<A> positions;
    for (const auto& c : s_.chosen) {
      order.push_back(c.axis);
      if (common.size() == 0) {  // whose 0 would be a code
        positions.push_back(F.zeros(common, {.dtype = DType::int64, .device = device_}, s_.site));
        continue;
      }
      const A wide = with_ndim(F.cast(in(*c.array), DType::int64), common.ndim());
      positions.push_back(F.broadcast_to(in(wide), common));
    }
    for (int d = 0; d < x.ndim(); ++d) {
      if (std::none_of(s_.chosen.begin(), s_.chosen.end(), [d](const auto& c) { return c.axis == d; })) {
        order.push_back(d);
      }
    }
    const A rows = F.gather_nd(in(F.transpose(in(x), order)), F.stack(positions, {}, s_.site));
    return moved(rows, 0, common.ndim(), s_.target);
  }

  // `value` in the dtype and on the device of `x`, broadcast to `shape`.
  A values_of(const Arg<A>& value, const A& x, const Shape& shape) const {
    if (value.is_number()) return F.full(shape, value.number(), {.dtype = x.dtype(), .device = device_}, s_.site);
    A v = value.array();
    bool fits = v.ndim() <= shape.ndim();
    for (int d = 1; fits && d <= v.ndim(); ++d) {
      const int64_t n = v.shape()[v.ndim() - d];
      fits = n == 1 || n == shape[shape.ndim() - d];
    }
    if (!fits) {
      throw ShapeError(
          fmt::format("[index] values of shape {} cannot be broadcast to {}", v.shape().str(), shape.str()));
    }
    if (v.dtype() != x.dtype()) v = v.astype(x.dtype(), s_.site);
    if constexpr (std::is_same_v<A, NDArray>) {
      if (device_) v = v.as_in_context(*device_, s_.site);
    }
    if (v.shape() == shape) return v;
    if (shape.size() == 0)
      return F.zeros(shape, {.dtype = x.dtype(), .device = device_}, s_.site);  // 0 is a code below
    return F.broadcast_to(in(with_ndim(v, shape.ndim())), shape);
  }

  // Whether a mask alone chooses, and each value goes to all elements along the mask's axes.
  bool is_where(const A& x, const Arg<A>& value) const {
    if (!is_masked_whole(x)) return false;
    const int behind = x.ndim() - s_.chosen[0].axis - s_.chosen[0].array->ndim();
    return value.is_number() || value.array().ndim() <= behind;
  }

  const Functions<A>& F;
  const Selection<A>& s_;
  const std::optional<Device> device_;
};

}  // namespace kaon::ops
