// What promote_types does to a call.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kaon/engine/thread_context.h"
#include "kaon/ops/promotion/promotion.h"
#include "kaon/ops/view.h"

namespace kaon {
struct OpDef;
}

namespace kaon::ops {

// Bit i: input i is cast to a dtype that it shares with the other inputs so marked. 0: the operator does not promote.
uint32_t promoted_inputs(const OpDef& def);

// The dtype for the inputs in `mask`, dtype_of(i) for i in [0, n); none where all have it.
template <class DTypeOf>
std::optional<DType> common_dtype(uint32_t mask, size_t n, DTypeOf&& dtype_of) {
  std::optional<DType> common;
  bool differ = false;
  for (size_t i = 0; i < n; ++i) {
    if ((mask >> i & 1) == 0) continue;
    const DType t = dtype_of(i);
    differ |= common && *common != t;
    common = common ? result_type(*common, t) : t;
  }
  return differ ? common : std::nullopt;
}

}  // namespace kaon::ops
