// Names that MXNet 1.9.1 has in files for operators that have another name or alias as well.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/api.h"

namespace kaon::ops {

// The name or alias of the same operator that OpTraits has, where there is one: slice for crop, relu for _sparse_relu,
// Convolution for _npx_convolution. Other names stay. Thread safety: any thread.
KAON_API std::string_view usual_name(std::string_view name);

// All names that it changes.
KAON_API std::vector<std::string> other_names_of_operators();

}  // namespace kaon::ops
