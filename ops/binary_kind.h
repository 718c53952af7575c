// The elementwise functions of two arguments.
#pragma once

#include <cstdint>

namespace kaon {

// clang-format off
enum class BinaryKind : uint8_t {
  add, sub, mul, div, mod, power, maximum, minimum, hypot, logaddexp,
  equal, not_equal, greater, greater_equal, lesser, lesser_equal, logical_and, logical_or, logical_xor
};
// clang-format on

}  // namespace kaon
