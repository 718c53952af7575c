// From two run-time dtypes to the template arguments of a conversion.
#pragma once

#include "kaon/ops/math/dispatch.h"

namespace kaon::ops {

// A conversion of elements of one dtype to another.
struct CastPair {
  DType from, to;
  bool operator==(const CastPair&) const = default;
};

// The conversion that stands for all those with the same bits. Integers become integers modulo 2^n, whether these are
// signed or not; where they are no wider, their own sign does not count either. Only uint64 holds reals beyond int64.
constexpr CastPair same_cast(DType from, DType to) {
  const bool from_integer = !is_floating(from) && from != DType::boolean;
  if (to == DType::boolean) return {from_integer ? as_signed(from) : from, to};
  if (is_floating(to) || (is_floating(from) && to == DType::uint64)) return {from, to};
  return {from_integer && size_of(to) <= size_of(from) ? as_signed(from) : from, as_signed(to)};
}

// Calls f.template operator()<From, To>() with types whose conversion gives the bits of this one; copy() where those of
// an element stay as they are.
template <class F, class Copy>
void dispatch_cast(const char* op, DType from, DType to, F&& f, Copy&& copy) {
  const CastPair pair = same_cast(from, to);
  if (pair.from == pair.to) return copy();
  dispatch_all(op, pair.from, [&]<class From>() {
    dispatch_all(op, pair.to, [&]<class To>() {
      constexpr CastPair own{dtype_of<From>, dtype_of<To>};
      if constexpr (own.from != own.to && own == same_cast(own.from, own.to)) f.template operator()<From, To>();
    });
  });
}

}  // namespace kaon::ops
