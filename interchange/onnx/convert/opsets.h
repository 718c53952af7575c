// The versions of operators that are known.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::convert {

// Of the domains that have a standard, "" being ONNX's own; a model's own functions are in others.
constexpr int64_t kOldestOpset = 1, kNewestOpset = 28;

// Throws ValueError, naming the file, the domain and the version, for a version of a domain that is older than 1 or
// newer than what is known: its operators may have been redefined. Of functions too.
void check_opsets(const format::Model& model, const std::string& file);

}  // namespace kaon::onnx::convert
