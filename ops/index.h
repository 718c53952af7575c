// Index: what x(...) and x.at(...) take for an axis: a position, a range, an array of positions, a mask. ArrayPart:
// what x.at(...) names, to write to.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <source_location>
#include <type_traits>

#include "kaon/engine/api.h"
#include "kaon/ops/arg.h"
#include "kaon/ops/elementwise_kinds.h"

namespace KAON_API kaon {

class NDArray;

// Positions begin, begin + step, ... before end, as in Python: negative ones count from the end, those beyond an end
// are moved to it, and what is not given is the whole axis.
struct Range {
  std::optional<int64_t> begin{}, end{}, step{};
};
// range() is the whole axis, range(3) its first three positions, range(1, {}, 2) each second one from 1 on.
constexpr Range range(std::optional<int64_t> end = {}) { return {.begin = {}, .end = end, .step = {}}; }
constexpr Range range(std::optional<int64_t> begin, std::optional<int64_t> end, std::optional<int64_t> step = {}) {
  return {.begin = begin, .end = end, .step = step};
}

struct Ellipsis {};
struct NewAxis {};
inline constexpr Ellipsis ellipsis;  // whole axes, as many as are left
inline constexpr NewAxis newaxis;    // an axis of size 1 that the array has not

// For arrays of kind A (NDArray, Symbol). Borrows the array: use it in parameter lists only.
template <class A>
class Index {
 public:
  using Site = std::source_location;
  enum class Kind : uint8_t { none, position, range, ellipsis, newaxis, array, mask };
  constexpr Index() = default;  // no index
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  constexpr Index(T position, Site site = Site::current())
      : kind(Kind::position), range{.begin = int64_t(position), .end = {}, .step = {}}, site(site) {}
  constexpr Index(const Range& range, Site site = Site::current()) : kind(Kind::range), range(range), site(site) {}
  constexpr Index(Ellipsis, Site site = Site::current()) : kind(Kind::ellipsis), site(site) {}
  constexpr Index(NewAxis, Site site = Site::current()) : kind(Kind::newaxis), site(site) {}
  // Positions where the dtype is an integer, a mask where it is bool. Comparisons of float32 arrays give float32, which
  // is refused (TypeError): mask(x > 0).
  constexpr Index(const A& array, Site site = Site::current()) : kind(Kind::array), array(&array), site(site) {}

  Kind kind = Kind::none;
  Range range{};  // `begin` is the position
  const A* array = nullptr;
  Site site{};
};

// The elements at which `array`, of any dtype, is not 0; it covers as many axes as it has itself.
template <class A>
Index<A> mask(const A& array, std::source_location site = std::source_location::current()) {
  Index<A> index(array, site);
  index.kind = Index<A>::Kind::mask;
  return index;
}

// For the expression that it is made in. Values are converted to the array's dtype and broadcast to the shape of
// x(...). Throws as x(...) and slice_assign() do. Thread safety: as the array.
template <class A>
class ArrayPart {
 public:
  using Indices = std::array<Index<A>, 8>;
  using Array = std::conditional_t<std::is_same_v<A, NDArray>, const A, A>;
  ArrayPart(Array& array, const Indices& indices) : array_(array), indices_(indices) {}
  ArrayPart(const ArrayPart&) = delete;
  ArrayPart& operator=(const ArrayPart&) = delete;

  // An NDArray is changed in place, the handle of a Symbol gets a new value. Where one element is named several times,
  // the last value counts.
  void operator=(const Arg<A>& value) && { assign(value); }
  void operator+=(const Arg<A>& value) && { update(ops::BinaryKind::add, value); }
  void operator-=(const Arg<A>& value) && { update(ops::BinaryKind::sub, value); }
  void operator*=(const Arg<A>& value) && { update(ops::BinaryKind::mul, value); }
  void operator/=(const Arg<A>& value) && { update(ops::BinaryKind::div, value); }
  // A new array, equal to the whole array but for the named elements. Gradients go to both.
  A replaced(const Arg<A>& value) &&;

 private:
  void assign(const Arg<A>& value);
  void update(ops::BinaryKind kind, const Arg<A>& value);
  Array& array_;
  Indices indices_;
};

}  // namespace kaon
