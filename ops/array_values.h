// Numbers in braces, as nd.array takes them.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {

namespace ops {

template <class T>
concept ArrayNumber = std::is_arithmetic_v<T>;

// A number that keeps all bits of an int64, of an uint64 and of a double. `integer` is 0 unless it is made of an
// integer, and its bits where it is larger than int64 holds.
class Number {
 public:
  template <ArrayNumber T>
  constexpr Number(T value)
      : real(double(value)),
        integer(std::integral<T> ? int64_t(value) : 0),
        is_integer(std::integral<T>),
        is_large(is_integer && value > T(0) && integer < 0) {}
  double real;
  int64_t integer;
  bool is_integer, is_large;
};

// A vector, a std::array, a span: numbers one after another in memory.
template <class R>
concept ContiguousNumbers = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                            (ArrayNumber<std::ranges::range_value_t<R>> ||
                             is_valid(dtype_of<std::ranges::range_value_t<R>>)) &&
                            !std::is_array_v<std::remove_reference_t<R>>;

// Elements of an array that hold numbers of type T, which may have no dtype of its own.
template <ArrayNumber T>
using WiderNumber = std::conditional_t<!std::integral<T>, double,
                                       std::conditional_t<std::is_unsigned_v<T> && sizeof(T) == 8, uint64_t, int64_t>>;

// Throws ValueError for an integer that int64 does not hold.
template <class T>
void expect_int64(std::span<const T> values) {
  if constexpr (std::unsigned_integral<T> && sizeof(T) == 8) {
    for (const T v : values) {
      if (v > uint64_t(std::numeric_limits<int64_t>::max())) {
        throw ValueError("[array] " + std::to_string(v) + " is larger than int64 holds; give .dtype = uint64");
      }
    }
  }
}

}  // namespace ops

// {1, 2.5, 3}. The constructor is variadic, and nd.array takes no C array instead, so that the braces may be used in a
// co_await expression (g++ 12). Thread safety: a value.
class ArrayValues {
 public:
  template <ops::ArrayNumber... T>
    requires(sizeof...(T) >= 1)
  ArrayValues(T... values) : numbers_{ops::Number(values)...} {}

  int64_t size() const { return int64_t(numbers_.size()); }
  // An array with these values. Throws ShapeError unless the shape has as many elements.
  NDArray fill(const Shape& shape, DType dtype, Device device) const;

 private:
  std::vector<ops::Number> numbers_;
};

// {{1, 2}, {3, 4}}: up to 16 rows. Thread safety: a value.
class ArrayRows {
 public:
  class Row {
   public:
    Row() = default;
    Row(ops::Number value) : numbers{value} {}
    template <ops::ArrayNumber... T>
      requires(sizeof...(T) >= 2)
    Row(T... values) : numbers{ops::Number(values)...} {}
    std::vector<ops::Number> numbers;
  };
  static constexpr size_t max_rows = 16;

  ArrayRows(const Row& r0, const Row& r1 = {}, const Row& r2 = {}, const Row& r3 = {}, const Row& r4 = {},
            const Row& r5 = {}, const Row& r6 = {}, const Row& r7 = {}, const Row& r8 = {}, const Row& r9 = {},
            const Row& r10 = {}, const Row& r11 = {}, const Row& r12 = {}, const Row& r13 = {}, const Row& r14 = {},
            const Row& r15 = {});  // throws ShapeError when they differ in length

  NDArray fill(DType dtype, Device device) const;

 private:
  std::vector<ops::Number> numbers_;
  Shape shape_;
};

}  // namespace kaon
