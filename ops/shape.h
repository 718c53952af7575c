// Shape: the dimensions of an array, stored in place.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kaon/engine/api.h"

namespace KAON_API kaon {

namespace ops {
template <class T>
concept Dimension = std::integral<T> && !std::same_as<T, bool>;
}

// Up to 8 dimensions. Also the type of every tuple-valued attribute, where negative numbers and
// reshape codes occur. -1 as a dimension, and unknown() as a whole, mean "not known yet" in inference.
// The constructor is variadic, not initializer_list, so that Shape may be used in a co_await expression (g++ 12).
// Thread safety: a value.
class Shape {
 public:
  static constexpr int max_ndim = 8;

  constexpr Shape() = default;
  template <ops::Dimension... D>
    requires(sizeof...(D) >= 1 && sizeof...(D) <= size_t(max_ndim))
  constexpr Shape(D... dims) : dims_{int64_t(dims)...}, ndim_(int(sizeof...(D))) {}
  explicit Shape(std::span<const int64_t> dims);  // throws ShapeError beyond 8 dimensions
  static Shape filled(int ndim, int64_t value);
  static constexpr Shape unknown() {
    Shape s;
    s.ndim_ = -1;
    return s;
  }

  constexpr int ndim() const { return ndim_; }
  constexpr bool empty() const { return ndim_ <= 0; }
  constexpr int64_t operator[](int i) const { return dims_[size_t(i)]; }
  constexpr int64_t& operator[](int i) { return dims_[size_t(i)]; }
  constexpr int64_t back() const { return dims_[size_t(ndim_ - 1)]; }
  constexpr const int64_t* begin() const { return dims_.data(); }
  constexpr const int64_t* end() const { return dims_.data() + (ndim_ > 0 ? ndim_ : 0); }
  void push_back(int64_t dim);  // throws ShapeError beyond 8 dimensions

  constexpr bool is_known() const {
    if (ndim_ < 0) return false;
    for (int64_t d : *this) {
      if (d < 0) return false;
    }
    return true;
  }
  // Number of elements; 1 for no dimensions.
  constexpr int64_t size() const { return product(0, ndim_); }
  constexpr int64_t product(int first, int last) const {
    int64_t n = 1;
    for (int i = first; i < last; ++i) n *= dims_[size_t(i)];
    return n;
  }
  std::string str() const;  // "(2, 3)", "(2,)", "()"

  friend constexpr bool operator==(const Shape& a, const Shape& b) {
    if (a.ndim_ != b.ndim_) return false;
    for (int i = 0; i < a.ndim_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  std::array<int64_t, max_ndim> dims_{};
  int ndim_ = 0;
};

namespace ops {
// An axis, or a Shape of axes.
template <class T>
concept Axes = Dimension<T> || std::same_as<T, Shape>;
}  // namespace ops

// A tuple whose entries may be None: begin, end and step of a slice, "(None, 2)". A Shape converts.
class OptionalShape {
 public:
  constexpr OptionalShape() = default;
  constexpr OptionalShape(const Shape& values) : values_(values) {}
  template <class... D>
    requires(sizeof...(D) >= 1 && sizeof...(D) <= size_t(Shape::max_ndim) &&
             ((ops::Dimension<D> || std::same_as<D, std::nullopt_t> || std::same_as<D, std::optional<int64_t>>)&&...))
  constexpr OptionalShape(D... entries) : values_(number(entries)...) {
    int i = 0;
    ((none_ = uint8_t(none_ | (is_none(entries) ? 1u << i : 0u)), ++i), ...);
  }

  constexpr int ndim() const { return values_.ndim(); }
  constexpr bool empty() const { return values_.empty(); }
  constexpr std::optional<int64_t> operator[](int i) const {
    return (none_ >> i) & 1 ? std::optional<int64_t>() : values_[i];
  }
  void push_back(std::optional<int64_t> entry) {  // throws ShapeError beyond 8 entries
    values_.push_back(entry.value_or(0));
    if (!entry) none_ = uint8_t(none_ | 1u << (ndim() - 1));
  }
  friend constexpr bool operator==(const OptionalShape&, const OptionalShape&) = default;

 private:
  template <class D>
  static constexpr int64_t number(D entry) {
    if constexpr (ops::Dimension<D>) {
      return int64_t(entry);
    } else if constexpr (std::same_as<D, std::nullopt_t>) {
      return 0;
    } else {
      return entry.value_or(0);
    }
  }
  template <class D>
  static constexpr bool is_none(D entry) {
    if constexpr (ops::Dimension<D>) {
      return false;
    } else if constexpr (std::same_as<D, std::nullopt_t>) {
      return true;
    } else {
      return !entry.has_value();
    }
  }
  Shape values_;
  uint8_t none_ = 0;  // bit i: entry i is None, and values_[i] is 0
};

namespace ops {
// `axis` counted from the end when negative. Throws ShapeError naming the operator.
KAON_API int normalize_axis(int64_t axis, int ndim, const char* op);

// The shape of two arrays combined by broadcasting: dimensions are matched from the right and must
// be equal or 1. Throws ShapeError naming the operator.
KAON_API Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op);
}  // namespace ops

}  // namespace kaon
