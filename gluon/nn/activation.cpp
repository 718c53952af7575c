#include "kaon/gluon/nn/activation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>  // join

#include <algorithm>
#include <array>

namespace kaon::gluon::nn {

namespace {

constexpr std::array<std::string_view, 15> function_names = {
    "relu",       "sigmoid",      "tanh",        "softrelu", "softsign", "gelu",    "silu",       "mish",
    "hard_swish", "hard_sigmoid", "log_sigmoid", "elu",      "selu",     "softmax", "log_softmax"};

std::string_view usual_name(std::string_view name) {
  if (name == "swish") return "silu";
  if (name == "hardswish") return "hard_swish";
  if (name == "hardsigmoid") return "hard_sigmoid";
  return name;
}

}  // namespace

ActivationName::ActivationName(std::string_view name) {
  const auto it = std::ranges::find(function_names, usual_name(name));
  if (it == function_names.end()) {
    throw ValueError(
        fmt::format("[Activation] there is no activation '{}'; there are: {}", name, fmt::join(function_names, ", ")));
  }
  function_ = ActivationFunction(it - function_names.begin());
}

ActivationFunction ActivationName::function() const {
  if (!function_) throw ValueError("[Activation] no activation is set");
  return *function_;
}

ActivationType ActivationName::type() const {
  constexpr auto names = enum_names(ActivationType());
  const size_t i = size_t(function());
  if (i >= names.size()) {
    throw ValueError(
        fmt::format("[Activation] '{}' cannot be used here; these can: {}", name(), fmt::join(names, ", ")));
  }
  return ActivationType(i);
}

std::string_view ActivationName::name() const { return function_names[size_t(function())]; }

Activation::Activation(ActivationName name) : HybridBlock(name.name()), function_(name.function()) {}

LeakyReLU::LeakyReLU(double alpha) : HybridBlock("leakyrelu"), alpha_(alpha) {
  if (!(alpha >= 0)) throw ValueError(fmt::format("[LeakyReLU] alpha must not be negative, got {}", alpha));
}

PReLU::PReLU(const PReLUOptions& options) : HybridBlock("prelu") {
  if (options.in_channels < 1)
    throw ValueError(fmt::format("[PReLU] in_channels must be at least 1, got {}", options.in_channels));
  alpha = param("alpha", {options.in_channels}, {.init = options.alpha_initializer});
}

ELU::ELU(double alpha) : HybridBlock("elu"), alpha_(alpha) {}
SELU::SELU() : HybridBlock("selu") {}
GELU::GELU() : HybridBlock("gelu") {}
Swish::Swish(double beta) : HybridBlock("swish"), beta_(beta) {}

}  // namespace kaon::gluon::nn
