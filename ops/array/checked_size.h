// Sizes of shapes that a program or a file gave: they may be too large to count.
#pragma once

#include <optional>

#include "kaon/ops/shape.h"

namespace kaon {

// The number of elements of a known shape; nothing where the dimensions other than 0 multiply to more than `most`.
std::optional<int64_t> checked_size(const Shape& shape, int64_t most = INT64_MAX);

}  // namespace kaon
