// Activation layers.
#pragma once

#include <optional>
#include <string_view>
#include <type_traits>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon::nn {

// The functions that have a name, ActivationType's first and in its order. softmax and log_softmax are along the last
// axis, elu's alpha is 1.
enum class ActivationFunction : uint8_t {
  relu,
  sigmoid,
  tanh,
  softrelu,
  softsign,
  gelu,
  silu,
  mish,
  hard_swish,
  hard_sigmoid,
  log_sigmoid,
  elu,
  selu,
  softmax,
  log_softmax
};

// Which activation a layer ends with, by the name of an ActivationFunction or as one; by default none. Other names that
// are understood: swish for silu, hardswish and hardsigmoid. Throws ValueError for another name.
class ActivationName {
 public:
  constexpr ActivationName() = default;
  constexpr ActivationName(ActivationFunction function) : function_(function) {}
  constexpr ActivationName(ActivationType type) : function_(ActivationFunction(type)) {}
  ActivationName(std::string_view name);
  ActivationName(const char* name) : ActivationName(std::string_view(name)) {}

  constexpr bool is_set() const { return function_.has_value(); }
  ActivationFunction function() const;  // throws ValueError when none is set
  ActivationType type() const;          // throws ValueError also for a function that is none of MXNet's five
  std::string_view name() const;        // "relu"

 private:
  std::optional<ActivationFunction> function_;
};
static_assert(std::is_trivially_destructible_v<ActivationName>);

// y = f(x), element by element but for softmax and log_softmax.
struct Activation : HybridBlock<Activation> {
  explicit Activation(ActivationName name);
  auto hybrid_forward(auto F, auto x) {
    using enum ActivationFunction;
    const auto f = F.as("fwd");
    switch (function_) {
      case gelu: return f.LeakyReLU(x, {.act_type = LeakyType::gelu});
      case silu: return f.silu(x);
      case mish: return f.mish(x);
      case hard_swish: return f.hard_swish(x);
      case hard_sigmoid: return f.hard_sigmoid(x);
      case log_sigmoid: return f.log_sigmoid(x);
      case elu: return f.LeakyReLU(x, {.act_type = LeakyType::elu, .slope = 1});
      case selu: return f.LeakyReLU(x, {.act_type = LeakyType::selu});
      case softmax: return f.softmax(x);
      case log_softmax: return f.log_softmax(x);
      default: return f.Activation(x, {.act_type = ActivationType(function_)});
    }
  }

 private:
  ActivationFunction function_;
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
