// Finding an operator by its name in a file.
#pragma once

#include <string_view>
#include <vector>

#include "kaon/ops/op_def.h"

namespace kaon::ops {

// By name or alias; nullptr when Kaon has none. Thread safety: any thread.
const OpDef* find_op(std::string_view name);

// Every operator, in the order of all_ops.h.
const std::vector<const OpDef*>& all_op_defs();

}  // namespace kaon::ops
