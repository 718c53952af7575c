#include "kaon/gluon/nn/norm.h"

#include <fmt/format.h>

#include "kaon/gluon/internal/block_node.h"

namespace kaon::gluon::nn {

using namespace graph;
namespace {

GradReq learned(bool is_learned) { return is_learned ? GradReq::write : GradReq::null; }

void check_channels(const char* layer, int64_t in_channels) {
  if (in_channels < 0)
    throw ValueError(fmt::format("[{}] in_channels must not be negative, got {}", layer, in_channels));
}

}  // namespace

namespace detail {

template <class Derived, class Op>
BatchNorm<Derived, Op>::BatchNorm(const char* hint, const BatchNormOptions& o)
    : HybridBlock<Derived>(hint),
      op_{.eps = o.epsilon,
          .momentum = o.momentum,
          .fix_gamma = !o.scale,
          .use_global_stats = o.use_global_stats,
          .axis = o.axis} {
  check_channels("BatchNorm", o.in_channels);
  const Shape shape{o.in_channels};
  gamma = this->param("gamma", shape, {.init = o.gamma_initializer, .grad_req = learned(o.scale)});
  beta = this->param("beta", shape, {.init = o.beta_initializer, .grad_req = learned(o.center)});
  running_mean = this->param("running_mean", shape, {.init = o.running_mean_initializer, .differentiable = false});
  running_var = this->param("running_var", shape, {.init = o.running_variance_initializer, .differentiable = false});
  this->node_->keeps_float32 = true;
}

template class BatchNorm<nn::BatchNorm>;
template class BatchNorm<BatchNormReLU, op::BatchNormWithReLU>;
template class BatchNorm<SyncBatchNorm>;

}  // namespace detail

BatchNorm::BatchNorm(const BatchNormOptions& o) : detail::BatchNorm<BatchNorm>("batchnorm", o) {}
BatchNormReLU::BatchNormReLU(const BatchNormOptions& o)
    : detail::BatchNorm<BatchNormReLU, op::BatchNormWithReLU>("batchnormrelu", o) {}

InstanceNorm::InstanceNorm(const InstanceNormOptions& o)
    : HybridBlock("instancenorm"), axis_(o.axis), epsilon_(o.epsilon) {
  check_channels("InstanceNorm", o.in_channels);
  gamma = param("gamma", {o.in_channels}, {.init = o.gamma_initializer, .grad_req = learned(o.scale)});
  beta = param("beta", {o.in_channels}, {.init = o.beta_initializer, .grad_req = learned(o.center)});
}

GroupNorm::GroupNorm(const GroupNormOptions& o)
    : HybridBlock("groupnorm"), num_groups_(o.num_groups), by_channel_(o.num_channels != 0), epsilon_(o.epsilon) {
  if (o.num_groups < 1) throw ValueError(fmt::format("[GroupNorm] num_groups must be positive, got {}", o.num_groups));
  if (o.num_channels < 0 || o.num_channels % o.num_groups != 0) {
    throw ValueError(
        fmt::format("[GroupNorm] num_groups {} must divide num_channels, got {}", o.num_groups, o.num_channels));
  }
  const int64_t length = by_channel_ ? o.num_channels : o.num_groups;
  gamma = param("gamma", {length}, {.init = o.gamma_initializer, .grad_req = learned(o.scale)});
  beta = param("beta", {length}, {.init = o.beta_initializer, .grad_req = learned(o.center)});
}

RMSNorm::RMSNorm(const RMSNormOptions& o) : HybridBlock("rmsnorm"), axis_(o.axis), epsilon_(o.epsilon) {
  check_channels("RMSNorm", o.in_channels);
  gamma = param("gamma", {o.in_channels}, {.init = o.gamma_initializer});
}

LayerNorm::LayerNorm(const LayerNormOptions& o) : HybridBlock("layernorm"), axis_(o.axis), epsilon_(o.epsilon) {
  check_channels("LayerNorm", o.in_channels);
  gamma = param("gamma", {o.in_channels}, {.init = o.gamma_initializer, .grad_req = learned(o.scale)});
  beta = param("beta", {o.in_channels}, {.init = o.beta_initializer, .grad_req = learned(o.center)});
}

}  // namespace kaon::gluon::nn
