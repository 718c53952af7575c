#include "kaon/gluon/nn/activation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>  // join

#include <algorithm>

namespace kaon::gluon::nn {

ActivationName::ActivationName(std::string_view name) {
  constexpr auto names = enum_names(ActivationType());
  auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) {
    throw ValueError(
        fmt::format("[Activation] there is no activation '{}'; there are: {}", name, fmt::join(names, ", ")));
  }
  type_ = ActivationType(it - names.begin());
}

ActivationType ActivationName::type() const {
  if (!type_) throw ValueError("[Activation] no activation is set");
  return *type_;
}

std::string_view ActivationName::name() const { return enum_names(ActivationType())[size_t(type())]; }

Activation::Activation(ActivationName type) : HybridBlock(type.name()), type_(type.type()) {}

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
