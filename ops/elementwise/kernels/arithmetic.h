// Arithmetic of arrays and numbers, for NDArray and Symbol alike: picks the operator and calls A::apply.
#pragma once

#include <cmath>
#include <span>
#include <utility>

#include "kaon/engine/error.h"
#include "kaon/ops/arg.h"
#include "kaon/ops/elementwise/elementwise.h"

namespace kaon::ops {

// Finds the operator for `a kind b` and calls then(def, attrs, inputs): two arrays broadcast, a number becomes an
// attribute. Throws ValueError for two numbers.
template <class A, class Then>
void with_binary_op(BinaryKind kind, const Arg<A>& a, const Arg<A>& b, Then&& then) {
  if (!a.is_number() && !b.is_number()) {
    const A* inputs[] = {&a.array(), &b.array()};
    [&]<size_t... I>(std::index_sequence<I...>) {
      static constexpr const OpDef* defs[] = {&op::Binary<BinaryKind(I)>::def...};
      const op::Binary<BinaryKind::add> none{};  // no function of two arrays has attributes
      then(*defs[size_t(kind)], static_cast<const void*>(&none), std::span<const A* const>(inputs));
    }
    (std::make_index_sequence<size_t(binary_kinds)>());
    return;
  }
  if (a.is_number() && b.is_number()) {
    throw ValueError("[" + std::string(binary_table[size_t(kind)].name) + "] needs an array, got two numbers");
  }
  const Arg<A>& array = a.is_number() ? b : a;
  const double number = a.is_number() ? a.number() : b.number();
  const ScalarKind chosen = scalar_kind(kind, a.is_number());
  if (!has_scalar_kind(kind)) {
    throw ValueError("[" + std::string(binary_table[size_t(kind)].name) + "] needs two arrays, got a number");
  }
  const A* inputs[] = {&array.array()};
  // one call per kind: each has a struct of its own
  auto call = [&]<ScalarKind K>() {
    if (K != chosen) return false;
    const op::Scalar<K> op{.scalar = number, .is_int = number == std::floor(number)};
    then(op::Scalar<K>::def, static_cast<const void*>(&op), std::span<const A* const>(inputs));
    return true;
  };
  [&]<size_t... I>(std::index_sequence<I...>) { (void)(call.template operator()<ScalarKind(I)>() || ...); }
  (std::make_index_sequence<size_t(ScalarKind::smooth_l1)>());
}

template <class A>
A apply_binary(BinaryKind kind, const Arg<A>& a, const Arg<A>& b, std::string_view name) {
  A out;
  with_binary_op(kind, a, b, [&](const OpDef& def, const void* attrs, std::span<const A* const> inputs) {
    A::apply(def, attrs, inputs, std::span<A>(&out, 1), a.site(), name);
  });
  return out;
}

}  // namespace kaon::ops
