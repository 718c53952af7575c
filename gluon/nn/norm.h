// Normalisation layers.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon::nn {

struct BatchNormOptions {
  int axis = 1;  // of the channels
  double momentum = 0.9;
  double epsilon = 1e-5;
  bool center = true;             // learn beta
  bool scale = true;              // learn gamma
  bool use_global_stats = false;  // in training too
  init::Initializer beta_initializer = init::Zero();
  init::Initializer gamma_initializer = init::One();
  init::Initializer running_mean_initializer = init::Zero();
  init::Initializer running_variance_initializer = init::One();
  int64_t in_channels = 0;  // 0: from the first input
};
static_assert(std::is_trivially_destructible_v<BatchNormOptions>);

// y = gamma (x - mean) / sqrt(var + epsilon) + beta per channel (Ioffe and Szegedy 2015). In training mean and var are
// those of the batch, and running_x <- momentum running_x + (1 - momentum) x; else the running ones are used. With
// 16-bit data the parameters are float32: casting a net to 16 bits does not change them.
struct BatchNorm : HybridBlock<BatchNorm> {
  explicit BatchNorm(const BatchNormOptions& options = {});

  auto hybrid_forward(auto F, auto x) {
    return F.as("fwd").BatchNorm(x, F(gamma), F(beta), F(running_mean), F(running_var),
                                 {.eps = epsilon_,
                                  .momentum = momentum_,
                                  .fix_gamma = fix_gamma_,
                                  .use_global_stats = use_global_stats_,
                                  .axis = axis_});
  }

  Parameter gamma, beta, running_mean, running_var;  // each (channels,)

 private:
  double epsilon_, momentum_;
  bool fix_gamma_, use_global_stats_;
  int axis_;
};

struct LayerNormOptions {
  int axis = -1;
  double epsilon = 1e-5;
  bool center = true;
  bool scale = true;
  init::Initializer beta_initializer = init::Zero();
  init::Initializer gamma_initializer = init::One();
  int64_t in_channels = 0;  // 0: from the first input
};
static_assert(std::is_trivially_destructible_v<LayerNormOptions>);

// y = gamma (x - mean) / sqrt(var + epsilon) + beta, with mean and var along `axis` of each sample (Ba et al. 2016).
struct LayerNorm : HybridBlock<LayerNorm> {
  explicit LayerNorm(const LayerNormOptions& options = {});

  auto hybrid_forward(auto F, auto x) {
    return F.as("fwd").LayerNorm(x, F(gamma), F(beta), {.axis = axis_, .eps = epsilon_});
  }

  Parameter gamma, beta;  // each as long as `axis`

 private:
  int axis_;
  double epsilon_;
};

}  // namespace gluon::nn
}  // namespace kaon
