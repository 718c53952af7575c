// Images sampled at positions that other arrays give, grids of such positions, and the correlation of two images.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

enum class GridTransform : uint8_t { affine, warp };
constexpr std::array<std::string_view, 2> enum_names(GridTransform) { return {"affine", "warp"}; }

enum class SpatialTransform : uint8_t { affine };
constexpr std::array<std::string_view, 1> enum_names(SpatialTransform) { return {"affine"}; }

enum class SamplerType : uint8_t { bilinear };
constexpr std::array<std::string_view, 1> enum_names(SamplerType) { return {"bilinear"}; }

namespace ops {
enum class SampleKind : uint8_t { grid, deformed, modulated };
constexpr std::array<std::string_view, 3> enum_names(SampleKind) { return {"grid", "deformed", "modulated"}; }

enum class SamplePart { forward, backward_data, backward_positions };

constexpr OpTraits sample_traits(SamplePart part) {
  switch (part) {
    case SamplePart::forward:
      return {.name = "_sample_images", .inputs = Names("data", "positions", "mask"), .in_mxnet = false};
    case SamplePart::backward_data:
      return {.name = "_backward_sample_images_data", .inputs = Names("head", "positions", "mask"), .in_mxnet = false};
    case SamplePart::backward_positions:
      return {.name = "_backward_sample_images_positions",
              .inputs = Names("head", "data", "positions", "mask"),
              .outputs = 2,
              .in_mxnet = false};
  }
  return {};
}
}  // namespace ops

// --- Samples: a value between four pixels is their mean, weighted by how near they are.

namespace op {
// data (n, c, h, w) sampled at positions. A pixel of weight 0 is not read; NaN is a position outside of any image.
//   grid       positions (n, 2, h', w') are x and y from -1, the middle of the first pixel, to 1, that of the last:
//              (n, c, h', w'). Pixels outside are 0.
//   deformed   the columns of a convolution (c kh kw, n, h' w'), with `kernel`, `stride`, `dilate` and `pad` as im2col
//              has them, whose elements have moved by positions (n, g kh kw 2, h', w'), first down, then to the right;
//              g = num_deformable_group groups of channels move alike. A position outside of [0, h) x [0, w) gives 0,
//              one past the middle of the last pixel that pixel.
//   modulated  the same, each element times `mask` (n, g kh kw, h', w'), and pixels outside are 0.
// The other parts are its gradients: of data of `shape`, and of positions and mask.
template <SamplePart P>
struct SampleOp {
  SampleKind kind = SampleKind::grid;
  Shape kernel{};
  Shape stride{};
  Shape dilate{};
  Shape pad{};
  int num_deformable_group = 1;
  Shape shape{};
  static constexpr OpTraits traits = ops::sample_traits(P);
  static constexpr void fields(auto field) {
    field("kind", &SampleOp::kind);
    field("kernel", &SampleOp::kernel);
    field("stride", &SampleOp::stride);
    field("dilate", &SampleOp::dilate);
    field("pad", &SampleOp::pad);
    field("num_deformable_group", &SampleOp::num_deformable_group);
    if constexpr (P == SamplePart::backward_data) field("shape", &SampleOp::shape);
  }
  static const OpDef def;
  int num_inputs() const { return traits.inputs.size() - int(kind != SampleKind::modulated); }
  int num_outputs() const { return P == SamplePart::backward_positions && kind == SampleKind::modulated ? 2 : 1; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const requires(P == SamplePart::forward);
  bool keeps_rows(const RowQuery& q) const requires(P == SamplePart::forward) {
    return kind == SampleKind::grid && q.all_have_rows();
  }
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;

  // The same attributes for another part.
  template <SamplePart Q>
  SampleOp<Q> part(const Shape& data = {}) const {
    return {kind, kernel, stride, dilate, pad, num_deformable_group, data};
  }
};

using SampleImages = SampleOp<SamplePart::forward>;
using BackwardSampleImagesData = SampleOp<SamplePart::backward_data>;
using BackwardSampleImagesPositions = SampleOp<SamplePart::backward_positions>;

// Their members are in sample_images.cpp.
extern template struct SampleOp<SamplePart::forward>;
extern template struct SampleOp<SamplePart::backward_data>;
extern template struct SampleOp<SamplePart::backward_positions>;

// Positions (n, 2, h, w), x and y, for BilinearSampler, of target_shape (h, w). With x and y of a pixel from -1, the
// first, to 1, the last, and 0 where there is one:
//   affine  data (n, 6), two rows of three numbers: (a x + b y + c, d x + e y + f);
//   warp    data (n, 2, h, w), by how many pixels each is from where it was: (x + 2 dx / (w - 1), y + 2 dy / (h - 1)),
//           of images of two pixels and more.
struct GridGenerator {
  GridTransform transform_type = GridTransform::affine;
  Shape target_shape{0, 0};
  static constexpr OpTraits traits{.name = "GridGenerator"};
  static constexpr void fields(auto field) {
    field("transform_type", &GridGenerator::transform_type, true);
    field("target_shape", &GridGenerator::target_shape);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery&) const { return true; }
};

// Images (n, c, h, w) at the positions of a grid (n, 2, h', w'), as the operator SampleImages says: (n, c, h', w').
struct BilinearSampler {
  std::optional<bool> cudnn_off{};
  static constexpr OpTraits traits{.name = "BilinearSampler", .inputs = Names("data", "grid")};
  static constexpr void fields(auto field) { field("cudnn_off", &BilinearSampler::cudnn_off); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// BilinearSampler at the affine grid of loc (n, 6) that GridGenerator makes: (n, c) + target_shape.
struct SpatialTransformer {
  Shape target_shape{0, 0};
  SpatialTransform transform_type = SpatialTransform::affine;
  SamplerType sampler_type = SamplerType::bilinear;
  std::optional<bool> cudnn_off{};
  static constexpr OpTraits traits{.name = "SpatialTransformer", .inputs = Names("data", "loc"), .infers = bit(1)};
  static constexpr void fields(auto field) {
    field("target_shape", &SpatialTransformer::target_shape);
    field("transform_type", &SpatialTransformer::transform_type, true);
    field("sampler_type", &SpatialTransformer::sampler_type, true);
    field("cudnn_off", &SpatialTransformer::cudnn_off);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op
template <ops::SamplePart P>
void run_cpu(const op::SampleOp<P>& op, KernelContext& c);
template <ops::SamplePart P>
void run_cuda(const op::SampleOp<P>& op, KernelContext& c);
void run_cpu(const op::GridGenerator& op, KernelContext& c);
void run_cuda(const op::GridGenerator& op, KernelContext& c);

// --- Correlation of two images.

namespace op {
// How alike a patch of data1 (n, c, h, w) is to patches of data2 near it: (n, d d, h', w'). With both images surrounded
// by pad_size zeros, patches of kernel_size x kernel_size pixels, an odd number, begin at (y, x) = max_displacement +
// (i, j) stride1, those of data2 moved by (p, q) stride2 for p, q of -r to r, where r = max_displacement / stride2
// rounded down and d = 2 r + 1. The mean over a patch and all channels of the products of both, or with is_multiply
// false of the absolute differences, whose gradient is 0 where there is none.
struct Correlation {
  int kernel_size = 1;
  int max_displacement = 1;
  int stride1 = 1;
  int stride2 = 1;
  int pad_size = 0;
  bool is_multiply = true;
  static constexpr OpTraits traits{.name = "Correlation", .inputs = Names("data1", "data2")};
  static constexpr void fields(auto field) {
    field("kernel_size", &Correlation::kernel_size);
    field("max_displacement", &Correlation::max_displacement);
    field("stride1", &Correlation::stride1);
    field("stride2", &Correlation::stride2);
    field("pad_size", &Correlation::pad_size);
    field("is_multiply", &Correlation::is_multiply);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};

// Its gradients, of data1 and of data2.
struct BackwardCorrelation {
  int kernel_size = 1;
  int max_displacement = 1;
  int stride1 = 1;
  int stride2 = 1;
  int pad_size = 0;
  bool is_multiply = true;
  static constexpr OpTraits traits{
      .name = "_backward_Correlation", .inputs = Names("head", "data1", "data2"), .outputs = 2, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("kernel_size", &BackwardCorrelation::kernel_size);
    field("max_displacement", &BackwardCorrelation::max_displacement);
    field("stride1", &BackwardCorrelation::stride1);
    field("stride2", &BackwardCorrelation::stride2);
    field("pad_size", &BackwardCorrelation::pad_size);
    field("is_multiply", &BackwardCorrelation::is_multiply);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  double flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const;
};
}  // namespace op
void run_cpu(const op::Correlation& op, KernelContext& c);
void run_cuda(const op::Correlation& op, KernelContext& c);
void run_cpu(const op::BackwardCorrelation& op, KernelContext& c);
void run_cuda(const op::BackwardCorrelation& op, KernelContext& c);

}  // namespace kaon
