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

BatchNorm::BatchNorm(const BatchNormOptions& o)
    : HybridBlock("batchnorm"),
      epsilon_(o.epsilon),
      momentum_(o.momentum),
      fix_gamma_(!o.scale),
      use_global_stats_(o.use_global_stats),
      axis_(o.axis) {
  check_channels("BatchNorm", o.in_channels);
  Shape shape{o.in_channels};
  gamma = param("gamma", shape, {.init = o.gamma_initializer, .grad_req = learned(o.scale)});
  beta = param("beta", shape, {.init = o.beta_initializer, .grad_req = learned(o.center)});
  running_mean = param("running_mean", shape, {.init = o.running_mean_initializer, .differentiable = false});
  running_var = param("running_var", shape, {.init = o.running_variance_initializer, .differentiable = false});
  node_->keeps_float32 = true;
}

LayerNorm::LayerNorm(const LayerNormOptions& o) : HybridBlock("layernorm"), axis_(o.axis), epsilon_(o.epsilon) {
  check_channels("LayerNorm", o.in_channels);
  gamma = param("gamma", {o.in_channels}, {.init = o.gamma_initializer, .grad_req = learned(o.scale)});
  beta = param("beta", {o.in_channels}, {.init = o.beta_initializer, .grad_req = learned(o.center)});
}

}  // namespace kaon::gluon::nn
