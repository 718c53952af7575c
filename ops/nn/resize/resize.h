// Images at another size: interpolation, averages over a grid, cropping.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

namespace ops {
// How a pixel of the result is made: it is the nearest pixel before it, is interpolated between two, or is the mean of
// a window.
enum class ResampleKind : uint8_t { nearest, bilinear, average };
constexpr std::array<std::string_view, 3> enum_names(ResampleKind) { return {"nearest", "bilinear", "average"}; }
}  // namespace ops

enum class ResizeMode : uint8_t { size, odd_scale, like, to_even_down, to_even_up, to_odd_down, to_odd_up };
constexpr std::array<std::string_view, 7> enum_names(ResizeMode) {
  return {"size", "odd_scale", "like", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"};
}

enum class UpSamplingType : uint8_t { nearest, bilinear };
constexpr std::array<std::string_view, 2> enum_names(UpSamplingType) { return {"nearest", "bilinear"}; }

enum class MultiInputMode : uint8_t { concat, sum };
constexpr std::array<std::string_view, 2> enum_names(MultiInputMode) { return {"concat", "sum"}; }

namespace op {
// Images (n, c, h, w) at height x width. Along each axis, of `in` pixels and `out` results, result o is
//   nearest   pixel floor(o in / out);
//   bilinear  (1 - f) x_i + f x_(i + 1), where i + f is o (in - 1) / (out - 1) with align_corners, which keeps the
//             corner pixels, and else max(0, (o + 1/2) in / out - 1/2); 0 where out is 1, as in MXNet;
//   average   the mean of the pixels from floor(o in / out) to ceil((o + 1) in / out), without the last.
// transposed: the transpose of that linear map, from its results to images of height x width. Floating dtypes.
struct Resample {
  ResampleKind kind = ResampleKind::nearest;
  int64_t height = 1;
  int64_t width = 1;
  bool align_corners = true;
  bool transposed = false;
  static constexpr OpTraits traits{.name = "_resample", .any_layout = true, .recomputable = true, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("kind", &Resample::kind);
    field("height", &Resample::height);
    field("width", &Resample::width);
    field("align_corners", &Resample::align_corners);
    field("transposed", &Resample::transposed);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  ImageUse image_use() const { return {.inputs = bit(0), .outputs = bit(0), .blocks = true}; }
  bool keeps_rows(const RowQuery&) const { return true; }
};

// Images (n, c, h, w) interpolated bilinearly, as the operator Resample says. The size of the result by mode:
//   size          height x width, or where they are given floor(h scale_height) x floor(w scale_width);
//   odd_scale     an axis of odd size s becomes floor((s - 1) scale) + 1, of even size floor(s scale);
//   like          that of the images `like`, whose values are not read;
//   to_even_down, to_even_up, to_odd_down, to_odd_up   one pixel less or more where that makes the size even or odd.
struct BilinearResize2D {
  int64_t height = 1;
  int64_t width = 1;
  std::optional<double> scale_height{};
  std::optional<double> scale_width{};
  ResizeMode mode = ResizeMode::size;
  bool align_corners = true;
  static constexpr OpTraits traits{.name = "_contrib_BilinearResize2D", .inputs = Names("data", "like")};
  static constexpr void fields(auto field) {
    field("height", &BilinearResize2D::height);
    field("width", &BilinearResize2D::width);
    field("scale_height", &BilinearResize2D::scale_height);
    field("scale_width", &BilinearResize2D::scale_width);
    field("mode", &BilinearResize2D::mode);
    field("align_corners", &BilinearResize2D::align_corners);
  }
  static const OpDef def;
  int num_inputs() const { return mode == ResizeMode::like ? 2 : 1; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The means of images (n, c, h, w) over a grid of output_size windows, which together cover the image, as the operator
// Resample says: (rows, columns), one number for both, or () for one window.
struct AdaptiveAvgPooling2D {
  Shape output_size{};
  static constexpr OpTraits traits{.name = "_contrib_AdaptiveAvgPooling2D"};
  static constexpr void fields(auto field) { field("output_size", &AdaptiveAvgPooling2D::output_size); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Images (n, c, h, w) `scale` times as high and wide. nearest repeats each pixel; of several inputs each grows to the
// size of the first one's result, a multiple of its own, and the results are put side by side along the channels or
// added. bilinear is a Deconvolution of each channel with its own weight (c, 1, k, k), k = 2 scale - scale mod 2, and
// stride `scale`; num_filter is c, or 0.
struct UpSampling {
  int scale = 1;
  int num_filter = 0;
  UpSamplingType sample_type = UpSamplingType::nearest;
  MultiInputMode multi_input_mode = MultiInputMode::concat;
  int num_args = 1;
  int64_t workspace = 512;
  static constexpr OpTraits traits{.name = "UpSampling", .inputs = Names("data", "weight"), .variadic = true};
  static constexpr void fields(auto field) {
    field("scale", &UpSampling::scale, true);
    field("num_filter", &UpSampling::num_filter);
    field("sample_type", &UpSampling::sample_type, true);
    field("multi_input_mode", &UpSampling::multi_input_mode);
    field("num_args", &UpSampling::num_args, true);
    field("workspace", &UpSampling::workspace);
  }
  static const OpDef def;
  int num_inputs() const { return sample_type == UpSamplingType::bilinear ? 2 : num_args; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The part of images (n, c, h, w) that has the height and width of `crop_like`, or h_w where there is one input: from
// pixel `offset` (row, column), or in the middle with center_crop. Any dtype.
struct Crop {
  int num_args = 1;
  Shape offset{0, 0};
  Shape h_w{0, 0};
  bool center_crop = false;
  static constexpr OpTraits traits{.name = "Crop", .inputs = Names("data", "crop_like")};
  static constexpr void fields(auto field) {
    field("num_args", &Crop::num_args, true);
    field("offset", &Crop::offset);
    field("h_w", &Crop::h_w);
    field("center_crop", &Crop::center_crop);
  }
  static const OpDef def;
  int num_inputs() const { return num_args; }
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op
void run_cpu(const op::Resample& op, KernelContext& c);
void run_cuda(const op::Resample& op, KernelContext& c);

}  // namespace kaon
