// Transposed convolution.
#pragma once

#include "kaon/ops/nn/conv/convolution.h"

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
  int64_t workspace = 512;  // MiB that an algorithm on a GPU may take
  bool no_bias = true;
  std::optional<CudnnTune> cudnn_tune{};
  bool cudnn_off = false;
  std::optional<ConvLayout> layout{};
  static constexpr OpTraits traits{
      .name = "Deconvolution", .inputs = Names("data", "weight", "bias"), .infers = bit(1) | bit(2)};
  static constexpr void fields(auto field) {
    field("kernel", &Deconvolution::kernel, true);
    field("stride", &Deconvolution::stride);
    field("dilate", &Deconvolution::dilate);
    field("pad", &Deconvolution::pad);
    field("adj", &Deconvolution::adj);
    field("target_shape", &Deconvolution::target_shape);
    field("num_filter", &Deconvolution::num_filter, true);
    field("num_group", &Deconvolution::num_group);
    field("workspace", &Deconvolution::workspace);
    field("no_bias", &Deconvolution::no_bias);
    field("cudnn_tune", &Deconvolution::cudnn_tune);
    field("cudnn_off", &Deconvolution::cudnn_off);
    field("layout", &Deconvolution::layout);
  }
  static const OpDef def;
  int num_inputs() const { return no_bias ? 2 : 3; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows() && q.ndim() >= 2; }
};
void run_cpu(const Deconvolution& op, KernelContext& c);
void run_cuda(const Deconvolution& op, KernelContext& c);

// The padding and adj in use and the shape of y for data of this shape; an axis that cannot be reached has a negative
// padding.
struct DeconvolutionExtent {
  Shape pad, adj, out;
};
inline DeconvolutionExtent extent_of(const Deconvolution& op, const Shape& data) {
  bool has_target = false;
  for (int64_t t : op.target_shape) has_target |= t != 0;
  DeconvolutionExtent e{.pad = Shape(), .adj = Shape(), .out = Shape(data[0], int64_t(op.num_filter))};
  for (int i = 0; i < op.kernel.ndim(); ++i) {
    const int64_t stride = op.stride.empty() ? 1 : op.stride[i], dilate = op.dilate.empty() ? 1 : op.dilate[i];
    const int64_t full = (data[i + 2] - 1) * stride + dilate * (op.kernel[i] - 1) + 1;
    if (has_target) {
      const int64_t surplus = full - op.target_shape[i];
      e.pad.push_back(surplus < 0 ? -1 : (surplus + 1) / 2);
      e.adj.push_back(surplus < 0 ? 0 : surplus % 2);
      e.out.push_back(op.target_shape[i]);
    } else {
      e.pad.push_back(op.pad.empty() ? 0 : op.pad[i]);
      e.adj.push_back(op.adj.empty() ? 0 : op.adj[i]);
      e.out.push_back(full - 2 * e.pad[i] + e.adj[i]);
    }
  }
  return e;
}

}  // namespace kaon
