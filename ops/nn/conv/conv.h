// Convolution, its gradients, its transpose, and deformable ones.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- Convolution and its gradients.

// Read from files and ignored: choices of another library.
enum class CudnnTune { off, limited_workspace, fastest };
constexpr std::array<std::string_view, 3> enum_names(CudnnTune) { return {"off", "limited_workspace", "fastest"}; }

// The order of the axes of images, from the batch N to the channels C: first after it, or last.
enum class ConvLayout { NCW, NCHW, NCDHW, NWC, NHWC, NDHWC };
constexpr std::array<std::string_view, 6> enum_names(ConvLayout) {
  return {"NCW", "NCHW", "NCDHW", "NWC", "NHWC", "NDHWC"};
}

namespace ops {
constexpr bool is_channels_last(const std::optional<ConvLayout>& layout) {
  return layout && *layout >= ConvLayout::NWC;
}

enum class ConvPart { forward, backward_data, backward_weight };

// `addend`: the input whose memory the result may take over.
constexpr OpTraits convolution_traits(ConvPart part, int addend = -1, bool in_mxnet = true) {
  switch (part) {
    case ConvPart::forward:
      return {.name = "Convolution",
              .inputs = Names("data", "weight", "bias", "scale", "addend"),
              .inplace = addend,
              .infers = bit(1) | bit(2),
              .any_layout = true,
              .in_mxnet = in_mxnet};
    case ConvPart::backward_data:  // `data` gives its shape only
      return {.name = "_backward_Convolution_data",
              .inputs = Names("head", "weight", "data"),
              .any_layout = true,
              .in_mxnet = false};
    case ConvPart::backward_weight:
      return {.name = "_backward_Convolution_weight",
              .inputs = Names("head", "data"),
              .outputs = 2,
              .any_layout = true,
              .in_mxnet = false};
  }
  return {};
}
}  // namespace ops

namespace op {
// y[n, o, p] = bias[o] + sum over c, k of w[o, c, k] x[n, c, p * stride - pad + k * dilate], cross-correlation over one
// to three spatial axes; group i of num_group output groups reads input group i. x (batch, channel, ...), w
// (num_filter, channel / num_group, kernel...), y has floor((in + 2 pad - dilate (kernel - 1) - 1) / stride) + 1
// positions per axis. In the layouts NWC, NHWC and NDHWC the axis of channels is the last of x, w (num_filter,
// kernel..., channel / num_group) and y; MXNet lacks NWC. Floating dtypes. The other two parts are its gradients: of
// the data, and of the weight with the bias.
template <ConvPart P>
struct ConvolutionOp {
  Shape kernel{};
  Shape stride{};
  Shape dilate{};
  Shape pad{};
  int num_filter = 0;
  int num_group = 1;
  int64_t workspace = 1024;  // MiB that an algorithm on a GPU may take
  bool no_bias = false;
  std::optional<CudnnTune> cudnn_tune{};
  bool cudnn_off = false;
  std::optional<ConvLayout> layout{};
  PostOps post_ops{};

  static constexpr OpTraits traits = ops::convolution_traits(P);
  static constexpr std::array traits_with_addend{ops::convolution_traits(P, 2), ops::convolution_traits(P, 3),
                                                 ops::convolution_traits(P, 4)};
  static constexpr OpTraits traits_not_in_mxnet = ops::convolution_traits(P, -1, false);
  static constexpr void fields(auto field) {
    field("kernel", &ConvolutionOp::kernel, true);
    field("stride", &ConvolutionOp::stride);
    field("dilate", &ConvolutionOp::dilate);
    field("pad", &ConvolutionOp::pad);
    field("num_filter", &ConvolutionOp::num_filter, true);
    field("num_group", &ConvolutionOp::num_group);
    field("workspace", &ConvolutionOp::workspace);
    field("no_bias", &ConvolutionOp::no_bias);
    field("cudnn_tune", &ConvolutionOp::cudnn_tune);
    field("cudnn_off", &ConvolutionOp::cudnn_off);
    field("layout", &ConvolutionOp::layout);
    field("__post_ops__", &ConvolutionOp::post_ops);
  }
  static const OpDef def;
  int num_inputs() const {
    return P == ConvPart::forward ? 3 - int(no_bias) + post_ops.inputs() : traits.inputs.size();
  }
  int num_outputs() const { return P == ConvPart::backward_weight && !no_bias ? 2 : 1; }
  const OpTraits& traits_of() const {
    if (post_ops.addend) return traits_with_addend[size_t(num_inputs() - 3)];  // the addend is the last input
    return layout == ConvLayout::NWC ? traits_not_in_mxnet : traits;
  }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ImageUse image_use() const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
  bool keeps_rows(const RowQuery& q) const requires(P == ConvPart::forward) {
    return q.only_first_has_rows() && q.ndim() >= 2;
  }
  Variants variants(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs, bool winograd) const;

  // The same attributes for another part.
  template <ConvPart Q>
  ConvolutionOp<Q> part(bool without_bias) const {
    return {.kernel = kernel,
            .stride = stride,
            .dilate = dilate,
            .pad = pad,
            .num_filter = num_filter,
            .num_group = num_group,
            .workspace = workspace,
            .no_bias = without_bias,
            .layout = layout};
  }
};

using Convolution = ConvolutionOp<ConvPart::forward>;
using ConvolutionBackwardData = ConvolutionOp<ConvPart::backward_data>;
using ConvolutionBackwardWeight = ConvolutionOp<ConvPart::backward_weight>;

// Their members are in convolution.cpp.
extern template struct ConvolutionOp<ConvPart::forward>;
extern template struct ConvolutionOp<ConvPart::backward_data>;
extern template struct ConvolutionOp<ConvPart::backward_weight>;
}  // namespace op
template <ops::ConvPart P>
void run_cpu(const op::ConvolutionOp<P>& op, KernelContext& c);
template <ops::ConvPart P>
void run_cuda(const op::ConvolutionOp<P>& op, KernelContext& c);

// --- Transposed convolution.

namespace op {
// The gradient of a convolution's data as a layer: every x[n, c, p] adds w[c, o, k] x to y at p * stride - pad + k *
// dilate. x (batch, channel, ...), w (channel, num_filter / num_group, kernel...), positions per axis (in - 1) stride +
// dilate (kernel - 1) + 1 - 2 pad + adj; target_shape names them instead, and pad and adj follow. With channels last, w
// is (channel, kernel..., num_filter / num_group); MXNet lacks NWC. Floating dtypes.
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
  static constexpr OpTraits traits_not_in_mxnet = [] {
    OpTraits t = traits;
    return t.in_mxnet = false, t;
  }();
  const OpTraits& traits_of() const { return layout == ConvLayout::NWC ? traits_not_in_mxnet : traits; }
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
}  // namespace op
void run_cpu(const op::Deconvolution& op, KernelContext& c);
void run_cuda(const op::Deconvolution& op, KernelContext& c);

// --- Deformable convolutions: the elements of each window have moved.

namespace op {
// A convolution of data (n, c, h, w) whose element (i, j) of the window at a position is the sample at where a
// convolution reads it plus offset[n, ((g kh + i) kw + j) 2 + (0, 1), position], down and to the right; the offsets are
// (n, num_deformable_group kh kw 2, h', w'), for as many groups g of channels. SampleImages says what a sample is: of
// kind `deformed` here, `modulated` below. weight (num_filter, c / num_group, kh, kw), bias (num_filter,). In memory
// are the columns of all images: kh kw times the data. Layout NCHW. Floating dtypes.
struct DeformableConvolution {
  Shape kernel{};
  Shape stride{};
  Shape dilate{};
  Shape pad{};
  int num_filter = 0;
  int num_group = 1;
  int num_deformable_group = 1;
  int64_t workspace = 1024;
  bool no_bias = false;
  std::optional<ConvLayout> layout{};
  static constexpr OpTraits traits{.name = "_contrib_DeformableConvolution",
                                   .inputs = Names("data", "offset", "weight", "bias"),
                                   .infers = bit(1) | bit(2) | bit(3)};
  static constexpr void fields(auto field) {
    field("kernel", &DeformableConvolution::kernel, true);
    field("stride", &DeformableConvolution::stride);
    field("dilate", &DeformableConvolution::dilate);
    field("pad", &DeformableConvolution::pad);
    field("num_filter", &DeformableConvolution::num_filter, true);
    field("num_group", &DeformableConvolution::num_group);
    field("num_deformable_group", &DeformableConvolution::num_deformable_group);
    field("workspace", &DeformableConvolution::workspace);
    field("no_bias", &DeformableConvolution::no_bias);
    field("layout", &DeformableConvolution::layout);
  }
  static const OpDef def;
  int num_inputs() const { return no_bias ? 3 : 4; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The same with each sample times `mask` (n, num_deformable_group kh kw, h', w').
struct ModulatedDeformableConvolution {
  Shape kernel{};
  Shape stride{};
  Shape dilate{};
  Shape pad{};
  int num_filter = 0;
  int num_group = 1;
  int num_deformable_group = 1;
  int64_t workspace = 1024;
  bool no_bias = false;
  int im2col_step = 64;
  std::optional<ConvLayout> layout{};
  static constexpr OpTraits traits{.name = "_contrib_ModulatedDeformableConvolution",
                                   .inputs = Names("data", "offset", "mask", "weight", "bias"),
                                   .infers = bit(1) | bit(2) | bit(3) | bit(4)};
  static constexpr void fields(auto field) {
    field("kernel", &ModulatedDeformableConvolution::kernel, true);
    field("stride", &ModulatedDeformableConvolution::stride);
    field("dilate", &ModulatedDeformableConvolution::dilate);
    field("pad", &ModulatedDeformableConvolution::pad);
    field("num_filter", &ModulatedDeformableConvolution::num_filter, true);
    field("num_group", &ModulatedDeformableConvolution::num_group);
    field("num_deformable_group", &ModulatedDeformableConvolution::num_deformable_group);
    field("workspace", &ModulatedDeformableConvolution::workspace);
    field("no_bias", &ModulatedDeformableConvolution::no_bias);
    field("im2col_step", &ModulatedDeformableConvolution::im2col_step);
    field("layout", &ModulatedDeformableConvolution::layout);
  }
  static const OpDef def;
  int num_inputs() const { return no_bias ? 4 : 5; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

// --- im2col and col2im: images as columns of their windows, and the transpose of that linear map.

namespace op {
// Images (n, c, ...) of one to three axes to (n, c times the elements of a window, windows). Of images (n, c, h, w), to
// (n, c kh kw, oh ow): column y ow + x of row (channel kh + i) kw + j is the pixel at row y stride - pad + i dilate and
// column x stride - pad + j dilate, by axis; 0 outside of the image. oh x ow is the size of a convolution's result.
// stride and dilate () are 1, pad () is 0. Floating dtypes.
struct Im2col {
  Shape kernel{};
  Shape stride{};
  Shape dilate{};
  Shape pad{};
  static constexpr OpTraits traits{.name = "im2col", .recomputable = true};
  static constexpr void fields(auto field) {
    field("kernel", &Im2col::kernel, true);
    field("stride", &Im2col::stride);
    field("dilate", &Im2col::dilate);
    field("pad", &Im2col::pad);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery&) const { return true; }
};

// The transpose: to images of output_size, (n, c, ...); each pixel is the sum of the elements that im2col makes of it.
struct Col2im {
  Shape output_size{};
  Shape kernel{};
  Shape stride{};
  Shape dilate{};
  Shape pad{};
  static constexpr OpTraits traits{.name = "col2im", .recomputable = true};
  static constexpr void fields(auto field) {
    field("output_size", &Col2im::output_size, true);
    field("kernel", &Col2im::kernel, true);
    field("stride", &Col2im::stride);
    field("dilate", &Col2im::dilate);
    field("pad", &Col2im::pad);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery&) const { return true; }
};
}  // namespace op
void run_cpu(const op::Im2col& op, KernelContext& c);
void run_cuda(const op::Im2col& op, KernelContext& c);
void run_cpu(const op::Col2im& op, KernelContext& c);
void run_cuda(const op::Col2im& op, KernelContext& c);

}  // namespace kaon
