// Normalisation layers.
#pragma once

#include <memory>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace comm {
class Communicator;
}
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

namespace detail {

template <class Derived, class Op = op::BatchNorm>
class BatchNorm : public HybridBlock<Derived> {
 public:
  auto hybrid_forward(auto F, auto x) {
    const auto f = F.as("fwd");
    if constexpr (std::same_as<Op, op::BatchNorm>) {
      return f.BatchNorm(x, F(gamma), F(beta), F(running_mean), F(running_var), op_);
    } else {
      return f.BatchNormWithReLU(x, F(gamma), F(beta), F(running_mean), F(running_var), op_);
    }
  }

  Parameter gamma, beta, running_mean, running_var;  // each (channels,)

 protected:
  BatchNorm(const char* hint, const BatchNormOptions& options);
  Op op_;
};

}  // namespace detail

// y = gamma (x - mean) / sqrt(var + epsilon) + beta per channel (Ioffe and Szegedy 2015). In training mean and var are
// those of the batch, and running_x <- momentum running_x + (1 - momentum) x; else the running ones are used. With
// 16-bit data the parameters are float32: casting a net to 16 bits does not change them.
struct BatchNorm : detail::BatchNorm<BatchNorm> {
  explicit BatchNorm(const BatchNormOptions& options = {});
};

// max(0, BatchNorm(x)) as one operator.
struct BatchNormReLU : detail::BatchNorm<BatchNormReLU, op::BatchNormWithReLU> {
  explicit BatchNormReLU(const BatchNormOptions& options = {});
};

// BatchNorm whose batch is that of all `ranks` in training: each gives the count, mean and squares of its part, and in
// the backward its sums, so that outputs and gradients are those of one process with the whole batch. All ranks call it
// in the same order. Without ranks it is BatchNorm. A plan cannot wait for other ranks: hybridize the parts of a net
// around it; training a hybridized net with it throws StateError, and so do gradients of its gradients.
struct SyncBatchNorm : detail::BatchNorm<SyncBatchNorm> {
  explicit SyncBatchNorm(const BatchNormOptions& options = {});
  SyncBatchNorm(const BatchNormOptions& options, const comm::Communicator& ranks);

  auto hybrid_forward(auto F, auto x) {
    if constexpr (std::same_as<decltype(x), NDArray>) {
      if (takes_all_ranks()) return over_ranks(x);
    } else {
      check_trace();
    }
    return detail::BatchNorm<SyncBatchNorm>::hybrid_forward(F, x);
  }

 private:
  bool takes_all_ranks() const;  // in this mode
  void check_trace() const;
  NDArray over_ranks(const NDArray& x) const;
  std::shared_ptr<const comm::Communicator> ranks_;  // null: this process alone
};

struct InstanceNormOptions {
  int axis = 1;  // of the channels
  double epsilon = 1e-5;
  bool center = true;  // learn beta
  bool scale = false;  // learn gamma
  init::Initializer beta_initializer = init::Zero();
  init::Initializer gamma_initializer = init::One();
  int64_t in_channels = 0;  // 0: from the first input
};
static_assert(std::is_trivially_destructible_v<InstanceNormOptions>);

// y = gamma (x - mean) / sqrt(var + epsilon) + beta, with mean and var over the positions of each channel of each
// sample (Ulyanov et al. 2016).
struct InstanceNorm : HybridBlock<InstanceNorm> {
  explicit InstanceNorm(const InstanceNormOptions& options = {});

  auto hybrid_forward(auto F, auto x) {
    const auto norm = [&](const auto& images) {
      return F.as("fwd").InstanceNorm(images, F(gamma), F(beta), {.eps = epsilon_});
    };
    return axis_ == 1 ? norm(x) : F.swapaxes(norm(F.swapaxes(x, 1, axis_)), 1, axis_);
  }

  Parameter gamma, beta;  // each (channels,)

 private:
  int axis_;
  double epsilon_;
};

struct GroupNormOptions {
  int num_groups = 1;
  int64_t num_channels = 0;  // above 0: gamma and beta hold one number for each of these channels, as PyTorch's do
  double epsilon = 1e-5;
  bool center = true;
  bool scale = true;
  init::Initializer beta_initializer = init::Zero();
  init::Initializer gamma_initializer = init::One();
};
static_assert(std::is_trivially_destructible_v<GroupNormOptions>);

// The same over num_groups groups of neighbouring channels, axis 1 (Wu and He 2018). As in MXNet 1, gamma and beta hold
// one number for each group; with num_channels one for each channel, as in PyTorch and MXNet 2. Throws ValueError for
// num_groups below 1, and for num_channels that num_groups does not divide.
struct GroupNorm : HybridBlock<GroupNorm> {
  explicit GroupNorm(const GroupNormOptions& options = {});

  auto hybrid_forward(auto F, auto x) {
    const auto f = F.as("fwd");
    const op::GroupNorm norm{.num_groups = num_groups_, .eps = epsilon_};
    if (!by_channel_) return f.GroupNorm(x, F(gamma), F(beta), norm);
    const auto channels = F(gamma);
    const auto groups = F.slice_axis(channels, 0, 0, num_groups_);  // the operator's own have one for each group
    const auto y = F.reshape(f.GroupNorm(x, F.ones_like(groups), F.zeros_like(groups), norm), {0, 0, -1});
    const auto scaled = F.broadcast_mul(y, F.reshape(channels, {1, -1, 1}));
    return F.reshape_like(F.broadcast_add(scaled, F.reshape(F(beta), {1, -1, 1})), x);
  }

  Parameter gamma, beta;  // each (num_groups,) or (num_channels,)

 private:
  int num_groups_;
  bool by_channel_;
  double epsilon_;
};

struct RMSNormOptions {
  int axis = -1;
  double epsilon = 1e-5;
  init::Initializer gamma_initializer = init::One();
  int64_t in_channels = 0;  // 0: from the first input
};
static_assert(std::is_trivially_destructible_v<RMSNormOptions>);

// y = gamma x / sqrt(mean(x^2) + epsilon), the mean along `axis` (Zhang and Sennrich 2019).
struct RMSNorm : HybridBlock<RMSNorm> {
  explicit RMSNorm(const RMSNormOptions& options = {});

  auto hybrid_forward(auto F, auto x) { return F.as("fwd").RMSNorm(x, F(gamma), {.axis = axis_, .eps = epsilon_}); }

  Parameter gamma;  // as long as `axis`

 private:
  int axis_;
  double epsilon_;
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
