// What the lists of rules ask of lists of operators.
#pragma once

#include <concepts>

#include "kaon/ops/all_ops.h"

namespace kaon::graph {

template <class Op, class... Ops>
constexpr bool is_in(ops::OpList<Ops...>) {
  return (std::same_as<Op, Ops> || ...);
}

}  // namespace kaon::graph
