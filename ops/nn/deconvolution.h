// Transposed convolution.
#pragma once

#include "kaon/ops/nn/convolution.h"

namespace kaon {

// The gradient of a convolution's data as a layer: every x[n, c, p] adds w[c, o, k] x to y at p * stride - pad + k *
// dilate. x (batch, channel, ...), w (channel, num_filter / num_group, kernel...), positions per axis (in - 1) stride +
// dilate (kernel - 1) + 1 - 2 pad + adj; target_shape names them instead, and pad and adj follow. Floating dtypes.
struct Deconvolution {
  Shape kernel{};
  Shape stride{};
  Shape dilate{};
  Shape pad{};
  Shape adj{};
  Shape target_shape{};
  int num_filter = 0;
  int num_group = 1;
  int64_t workspace = 512;
  bool no_bias = true;
  std::optional<CudnnTune> cudnn_tune{};
  bool cudnn_off = false;
  std::optional<ConvLayout> layout{};
  static constexpr OpTraits traits{
      .name = "Deconvolution", .inputs = Names("data", "weight", "bias"), .infers = bit(1) | bit(2)};
  static constexpr auto fields = std::tuple{Field{"kernel", &Deconvolution::kernel, true},
                                            Field{"stride", &Deconvolution::stride},
                                            Field{"dilate", &Deconvolution::dilate},
                                            Field{"pad", &Deconvolution::pad},
                                            Field{"adj", &Deconvolution::adj},
                                            Field{"target_shape", &Deconvolution::target_shape},
                                            Field{"num_filter", &Deconvolution::num_filter, true},
                                            Field{"num_group", &Deconvolution::num_group},
                                            Field{"workspace", &Deconvolution::workspace},
                                            Field{"no_bias", &Deconvolution::no_bias},
                                            Field{"cudnn_tune", &Deconvolution::cudnn_tune},
                                            Field{"cudnn_off", &Deconvolution::cudnn_off},
                                            Field{"layout", &Deconvolution::layout}};
  static const OpDef def;
  int num_inputs() const { return no_bias ? 2 : 3; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const Deconvolution& op, KernelContext& c);

}  // namespace kaon
