// Pooling and its gradient; maxima with their places, and the way back.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/nn/conv/conv.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

enum class PoolType { max, avg, sum, lp };
constexpr std::array<std::string_view, 4> enum_names(PoolType) { return {"max", "avg", "sum", "lp"}; }

enum class PoolingConvention { valid, full, same };
constexpr std::array<std::string_view, 3> enum_names(PoolingConvention) { return {"valid", "full", "same"}; }

namespace ops {
enum class PoolPart { forward, backward, along };

constexpr OpTraits pooling_traits(PoolPart part, bool dilated = false) {
  if (part == PoolPart::forward) {
    return {.name = "Pooling", .any_layout = true, .recomputable = true, .in_mxnet = !dilated};
  }
  if (part == PoolPart::along) {
    return {
        .name = "_pooling_along", .inputs = Names("tangent", "data", "output"), .any_layout = true, .in_mxnet = false};
  }
  return {
      .name = "_backward_Pooling", .inputs = Names("head", "data", "output"), .any_layout = true, .in_mxnet = false};
}
}  // namespace ops

namespace op {
// Maximum, mean, sum or p-norm (p_value 1, 2 or 3) over windows of one to three spatial axes of x (batch, channel,
// ...). Positions per axis: `valid` floor((in + 2 pad - kernel) / stride) + 1, `full` the same rounded up, `same`
// ceil((in + 2 pad) / stride). The mean divides by the window's size within the padded data, or by its real elements
// when count_include_pad is false. The elements of a window are `dilation` apart, which MXNet lacks; in these formulae
// a kernel is then dilation (kernel - 1) + 1. global_pool takes the whole image. NaN in a window gives NaN. Floating
// dtypes. Gradient: of max the whole to the first maximum in row-major order; data whose windows hold nothing get 0.
// In the layouts NWC, NHWC and NDHWC the axis of channels is the last of x and of the result.
// The gradient of its gradient is the directional derivative along `tangent`; the p-norm's is made of sums.
template <PoolPart P>
struct PoolingOp {
  Shape kernel{};
  PoolType pool_type = PoolType::max;
  bool global_pool = false;
  bool cudnn_off = false;
  PoolingConvention pooling_convention = PoolingConvention::valid;
  Shape stride{};
  Shape pad{};
  std::optional<int> p_value{};
  std::optional<bool> count_include_pad{};
  std::optional<ConvLayout> layout{};
  Shape dilation{};

  static constexpr OpTraits traits = ops::pooling_traits(P);
  static constexpr OpTraits dilated_traits = ops::pooling_traits(P, true);
  static constexpr void fields(auto field) {
    field("kernel", &PoolingOp::kernel);
    field("pool_type", &PoolingOp::pool_type);
    field("global_pool", &PoolingOp::global_pool);
    field("cudnn_off", &PoolingOp::cudnn_off);
    field("pooling_convention", &PoolingOp::pooling_convention);
    field("stride", &PoolingOp::stride);
    field("pad", &PoolingOp::pad);
    field("p_value", &PoolingOp::p_value);
    field("count_include_pad", &PoolingOp::count_include_pad);
    field("layout", &PoolingOp::layout);
    field("dilation", &PoolingOp::dilation);
  }
  static const OpDef def;
  const OpTraits& traits_of() const { return dilation.empty() ? traits : dilated_traits; }
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ImageUse image_use() const requires(P != PoolPart::along) {
    if (ops::is_channels_last(layout)) return {};  // row-major: that is channels last for the kernels
    if (P == PoolPart::forward) return {.inputs = bit(0), .outputs = bit(0), .blocks = true};
    return {.inputs = bit(0) | bit(1) | bit(2), .outputs = bit(0)};
  }
  bool keeps_rows(const RowQuery& q) const requires(P == PoolPart::forward) {
    return q.only_first_has_rows() && q.ndim() >= 2;
  }
};

using Pooling = PoolingOp<PoolPart::forward>;
using BackwardPooling = PoolingOp<PoolPart::backward>;
using PoolingAlong = PoolingOp<PoolPart::along>;

// Their members are in pooling.cpp.
extern template struct PoolingOp<PoolPart::forward>;
extern template struct PoolingOp<PoolPart::backward>;
extern template struct PoolingOp<PoolPart::along>;
}  // namespace op
template <ops::PoolPart P>
void run_cpu(const op::PoolingOp<P>& op, KernelContext& c);
template <ops::PoolPart P>
void run_cuda(const op::PoolingOp<P>& op, KernelContext& c);

// --- Maxima with their places. Places are numbers in the image, row-major, int64; -1 is of a window without elements.

namespace op {
// The maxima of Pooling, of images (n, c, ...) of one to three axes, and the place of the first one in each window, or
// of the first NaN.
struct MaxPoolIndices {
  Shape kernel{};
  bool global_pool = false;
  PoolingConvention pooling_convention = PoolingConvention::valid;
  Shape stride{};
  Shape pad{};
  Shape dilation{};
  static constexpr OpTraits traits{.name = "max_pool_indices", .outputs = 2, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("kernel", &MaxPoolIndices::kernel);
    field("global_pool", &MaxPoolIndices::global_pool);
    field("pooling_convention", &MaxPoolIndices::pooling_convention);
    field("stride", &MaxPoolIndices::stride);
    field("pad", &MaxPoolIndices::pad);
    field("dilation", &MaxPoolIndices::dilation);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};

// data (n, c, ...) at their places in images (n, c) + output_size of zeros: of equal places the last one counts, and -1
// is none; IndexError for others outside of the image. Any dtype.
struct MaxUnpool {
  Shape output_size{};
  static constexpr OpTraits traits{.name = "max_unpool", .inputs = Names("data", "indices"), .in_mxnet = false};
  static constexpr void fields(auto field) { field("output_size", &MaxUnpool::output_size, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};

// The same where equal places add up: the gradient of max_pool_indices. Floating dtypes.
struct BackwardMaxPoolIndices {
  Shape output_size{};
  static constexpr OpTraits traits{
      .name = "_backward_max_pool_indices", .inputs = Names("head", "indices"), .in_mxnet = false};
  static constexpr void fields(auto field) { field("output_size", &BackwardMaxPoolIndices::output_size); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};

// The elements of images (n, c, ...) at these places (n, c, ...), 0 for -1: the transpose of both. Any dtype.
struct PlaneTake {
  static constexpr OpTraits traits{.name = "_plane_take", .inputs = Names("data", "indices"), .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};
}  // namespace op
void run_cpu(const op::MaxPoolIndices& op, KernelContext& c);
void run_cuda(const op::MaxPoolIndices& op, KernelContext& c);
void run_cpu(const op::MaxUnpool& op, KernelContext& c);
void run_cuda(const op::MaxUnpool& op, KernelContext& c);
void run_cpu(const op::BackwardMaxPoolIndices& op, KernelContext& c);
void run_cuda(const op::BackwardMaxPoolIndices& op, KernelContext& c);
void run_cpu(const op::PlaneTake& op, KernelContext& c);
void run_cuda(const op::PlaneTake& op, KernelContext& c);

}  // namespace kaon
