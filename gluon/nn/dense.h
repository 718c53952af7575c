// Dense: the fully connected layer.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/nn/activation.h"

namespace KAON_API kaon {
namespace gluon::nn {

struct DenseOptions {
  ActivationName activation{};
  bool use_bias = true;
  bool flatten = true;
  DType dtype = DType::float32;
  init::Initializer weight_initializer{};  // unset: the one given to initialize()
  init::Initializer bias_initializer = init::Zero();
  int64_t in_units = 0;  // 0: from the first input
};
static_assert(std::is_trivially_destructible_v<DenseOptions>);

// y = activation(x W^T + b) with weight (units, in_units) and bias (units,). With flatten, x is (batch, everything
// else) and y (batch, units); without, the last axis of x becomes units and the others stay.
struct Dense : HybridBlock<Dense> {
  explicit Dense(int64_t units, const DenseOptions& options = {});

  auto hybrid_forward(auto F, auto x) {
    auto f = F.as("fwd");
    op::FullyConnected op{.num_hidden = units_, .flatten = flatten_};
    x = bias.defined() ? f.FullyConnected(x, F(weight), F(bias), op) : f.FullyConnected(x, F(weight), op);
    return activation_ ? (*activation_)(x) : x;
  }

  Parameter weight;
  Parameter bias;  // not defined without use_bias

 private:
  int units_;
  bool flatten_;
  std::optional<Activation> activation_;
};

}  // namespace gluon::nn
}  // namespace kaon
