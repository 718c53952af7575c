#include "kaon/interchange/onnx/convert/opsets.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "kaon/engine/error.h"

namespace kaon::onnx::convert {

namespace {

// The newest version of each domain, as of the package onnx 1.23 and of ONNX Runtime 1.32.
constexpr std::pair<std::string_view, int64_t> kNewest[] = {
    {"", kNewestOpset},   {"ai.onnx.ml", 5},       {"ai.onnx.preview", 1}, {"ai.onnx.preview.training", 1},
    {"com.microsoft", 1}, {"ai.onnx.training", 1},
};

void check(const std::map<std::string, int64_t>& opsets, const std::string& where) {
  for (const auto& [domain, version] : opsets) {
    const auto* const known =
        std::find_if(std::begin(kNewest), std::end(kNewest), [&](const auto& k) { return k.first == domain; });
    if (known == std::end(kNewest) || (version >= kOldestOpset && version <= known->second)) continue;
    throw ValueError(fmt::format("[onnx] {}: version {} of the operators of {} is not known: expected {} to {}", where,
                                 version, domain.empty() ? "ai.onnx" : domain, kOldestOpset, known->second));
  }
}

}  // namespace

void check_opsets(const format::Model& model, const std::string& file) {
  check(model.opsets, file);
  for (const format::Function& f : model.functions) check(f.opsets, fmt::format("{}, function {}", file, f.name));
}

}  // namespace kaon::onnx::convert
