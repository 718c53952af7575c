// Activation layers.
#pragma once

#include <optional>
#include <string_view>
#include <type_traits>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon::nn {

// Which activation a layer ends with: "relu", "sigmoid", "tanh", "softrelu", "softsign" or the enum; by default none.
// Throws ValueError for another name.
class ActivationName {
 public:
  constexpr ActivationName() = default;
  constexpr ActivationName(ActivationType type) : type_(type) {}
  ActivationName(std::string_view name);
  ActivationName(const char* name) : ActivationName(std::string_view(name)) {}

  constexpr bool is_set() const { return type_.has_value(); }
  ActivationType type() const;    // throws ValueError when none is set
  std::string_view name() const;  // "relu"

 private:
  std::optional<ActivationType> type_;
};
static_assert(std::is_trivially_destructible_v<ActivationName>);

// y = f(x), element by element.
struct Activation : HybridBlock<Activation> {
  explicit Activation(ActivationName type);
  auto hybrid_forward(auto F, auto x) { return F.as("fwd").Activation(x, {.act_type = type_}); }

 private:
  ActivationType type_;
};

// x where x > 0, else alpha x.
struct LeakyReLU : HybridBlock<LeakyReLU> {
  explicit LeakyReLU(double alpha);
  auto hybrid_forward(auto F, auto x) {
    return F.as("fwd").LeakyReLU(x, {.act_type = LeakyType::leaky, .slope = alpha_});
  }

 private:
  double alpha_;
};

struct PReLUOptions {
  init::Initializer alpha_initializer = init::Constant(0.25);
  int64_t in_channels = 1;  // one slope for all, or one per channel (axis 1)
};
static_assert(std::is_trivially_destructible_v<PReLUOptions>);

// x where x > 0, else alpha x with a learned alpha (He et al. 2015).
struct PReLU : HybridBlock<PReLU> {
  explicit PReLU(const PReLUOptions& options = {});
  auto hybrid_forward(auto F, auto x) { return F.as("fwd").LeakyReLU(x, F(alpha), {}); }

  Parameter alpha;
};

// x where x > 0, else alpha (e^x - 1) (Clevert et al. 2016).
struct ELU : HybridBlock<ELU> {
  explicit ELU(double alpha = 1);
  auto hybrid_forward(auto F, auto x) {
    return F.as("fwd").LeakyReLU(x, {.act_type = LeakyType::elu, .slope = alpha_});
  }

 private:
  double alpha_;
};

// 1.0507 x where x > 0, else 1.0507 * 1.6733 (e^x - 1) (Klambauer et al. 2017).
struct SELU : HybridBlock<SELU> {
  SELU();
  auto hybrid_forward(auto F, auto x) { return F.as("fwd").LeakyReLU(x, {.act_type = LeakyType::selu}); }
};

// x Phi(x) with the normal distribution function Phi (Hendrycks and Gimpel 2016).
struct GELU : HybridBlock<GELU> {
  GELU();
  auto hybrid_forward(auto F, auto x) { return F.as("fwd").LeakyReLU(x, {.act_type = LeakyType::gelu}); }
};

// x sigmoid(beta x) (Ramachandran et al. 2017).
struct Swish : HybridBlock<Swish> {
  explicit Swish(double beta = 1);
  auto hybrid_forward(auto F, auto x) { return x * F.as("fwd").sigmoid(x * beta_); }

 private:
  double beta_;
};

}  // namespace gluon::nn
}  // namespace kaon
