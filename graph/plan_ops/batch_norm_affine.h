// A BatchNorm by moving statistics as a scale and a shift of each channel.
#pragma once

#include <math.h>

#include "kaon/ops/attributes.h"
#include "kaon/ops/host_device.h"
#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

namespace op {
// scale = gamma / sqrt(moving_var + eps), gamma taken for 1 with fix_gamma; shift = beta + (bias - moving_mean) scale:
// BatchNorm(z + bias) = scale z + shift. Exists in plans only. Outputs: scale, shift; float32 for 16-bit parameters.
struct BatchNormAffine {
  double eps = 1e-3;
  bool fix_gamma = true;
  bool no_bias = false;
  static constexpr OpTraits traits{.name = "_batch_norm_affine",
                                   .inputs = Names("gamma", "beta", "moving_mean", "moving_var", "bias"),
                                   .outputs = 2,
                                   .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("eps", &BatchNormAffine::eps);
    field("fix_gamma", &BatchNormAffine::fix_gamma);
    field("no_bias", &BatchNormAffine::no_bias);
  }
  static const OpDef def;
  int num_inputs() const { return no_bias ? 4 : 5; }
  void infer(InferContext& c) const;
};
}  // namespace op
void run_cpu(const op::BatchNormAffine& op, KernelContext& c);
void run_cuda(const op::BatchNormAffine& op, KernelContext& c);

}  // namespace kaon

namespace kaon::graph {

// Scale and shift of one channel.
struct ChannelScale {
  double scale, shift;
};
KAON_HOST_DEVICE inline ChannelScale channel_scale(double gamma, double beta, double mean, double var, double bias,
                                                   double eps) {
  const double scale = gamma / ::sqrt(var + eps);
  return {scale, beta + (bias - mean) * scale};
}

}  // namespace kaon::graph
