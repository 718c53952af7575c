// Images as files have them, (height, width, channels) or a batch of these: to tensors, cut, mirrored, in other
// colours. Made of other operators.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// Images have 3 dimensions, or 4 in a batch, and where colours are changed 1 channel or 3: red, green, blue. What an
// operator draws, it draws for each image of a batch. Results have the dtype of data: numbers of integer dtypes are
// computed in float32, cut to whole numbers and to the range of the dtype. Gradients are the derivatives, of integers
// none.

namespace ops {
enum class ImageFlip : uint8_t { left_right, top_bottom, random_left_right, random_top_bottom };
inline constexpr std::array<std::string_view, 4> flip_names{"_image_flip_left_right", "_image_flip_top_bottom",
                                                            "_image_random_flip_left_right",
                                                            "_image_random_flip_top_bottom"};
constexpr bool is_random(ImageFlip flip) { return flip >= ImageFlip::random_left_right; }

enum class ColorChange : uint8_t { brightness, contrast, saturation, hue };
inline constexpr std::array<std::string_view, 4> color_names{"_image_random_brightness", "_image_random_contrast",
                                                             "_image_random_saturation", "_image_random_hue"};

KAON_API void infer_flip(InferContext& c);
KAON_API void compose_flip(ImageFlip flip, ComposeContext& c);
KAON_API void infer_color(double min_factor, double max_factor, InferContext& c);
KAON_API void compose_color(ColorChange change, double min_factor, double max_factor, ComposeContext& c);
}  // namespace ops

namespace op {
// Channels first and divided by 255: (channels, height, width), or (n, channels, height, width), in float32.
struct ImageToTensor {
  static constexpr OpTraits traits{.name = "_image_to_tensor"};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// (x - mean) / std for images with channels first, (channels, height, width) or (n, channels, height, width), of 1 or 3
// channels, by one number or a number for each channel. Floating dtypes.
struct ImageNormalize {
  FloatTuple mean{0.0f};
  FloatTuple std{1.0f};
  static constexpr OpTraits traits{.name = "_image_normalize"};
  static constexpr void fields(auto field) {
    field("mean", &ImageNormalize::mean);
    field("std", &ImageNormalize::std);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The part of `height` rows from row y on and `width` columns from column x on. Any dtype.
struct ImageCrop {
  int64_t x = 0;
  int64_t y = 0;
  int64_t width = 0;
  int64_t height = 0;
  static constexpr OpTraits traits{.name = "_image_crop"};
  static constexpr void fields(auto field) {
    field("x", &ImageCrop::x, true);
    field("y", &ImageCrop::y, true);
    field("width", &ImageCrop::width, true);
    field("height", &ImageCrop::height, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// At another size, (width, height) or one number for both; with keep_ratio one number is the shorter side. A pixel is a
// square around its middle. interp, as OpenCV numbers them: 0 nearest, 1 bilinear, 2 cubic, 3 the mean of the area,
// 4 Lanczos of 8 x 8 pixels. Floating dtypes and uint8, whose numbers are rounded.
struct ImageResize {
  Shape size{};
  bool keep_ratio = false;
  int interp = 1;
  static constexpr OpTraits traits{.name = "_image_resize"};
  static constexpr void fields(auto field) {
    field("size", &ImageResize::size);
    field("keep_ratio", &ImageResize::keep_ratio);
    field("interp", &ImageResize::interp);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Mirrored; the random ones with probability 1/2. Any dtype.
template <ops::ImageFlip F>
struct ImageFlipped {
  static constexpr OpTraits traits{.name = ops::flip_names[size_t(F)], .random = ops::is_random(F)};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_flip(c); }
  void compose(ComposeContext& c) const { ops::compose_flip(F, c); }
};
using ImageFlipLeftRight = ImageFlipped<ops::ImageFlip::left_right>;
using ImageFlipTopBottom = ImageFlipped<ops::ImageFlip::top_bottom>;
using ImageRandomFlipLeftRight = ImageFlipped<ops::ImageFlip::random_left_right>;
using ImageRandomFlipTopBottom = ImageFlipped<ops::ImageFlip::random_top_bottom>;

// By a factor f that is uniform in [min_factor, max_factor], with grey = 0.299 red + 0.587 green + 0.114 blue, or the
// one channel. brightness: f x; contrast: f x + (1 - f) (the mean of grey); saturation: f x + (1 - f) grey; hue: turned
// by f whole turns of the hue, with the largest and the smallest number of a pixel as they were.
template <ops::ColorChange C>
struct ImageRandomColor {
  double min_factor = 1;
  double max_factor = 1;
  static constexpr OpTraits traits{.name = ops::color_names[size_t(C)], .random = true};
  static constexpr void fields(auto field) {
    field("min_factor", &ImageRandomColor::min_factor, true);
    field("max_factor", &ImageRandomColor::max_factor, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const { ops::infer_color(min_factor, max_factor, c); }
  void compose(ComposeContext& c) const { ops::compose_color(C, min_factor, max_factor, c); }
};
using ImageRandomBrightness = ImageRandomColor<ops::ColorChange::brightness>;
using ImageRandomContrast = ImageRandomColor<ops::ColorChange::contrast>;
using ImageRandomSaturation = ImageRandomColor<ops::ColorChange::saturation>;
using ImageRandomHue = ImageRandomColor<ops::ColorChange::hue>;

// These four in this order, each by a factor that is uniform in [max(0, 1 - a), 1 + a] for its attribute a >= 0; one
// whose attribute is 0 is left out.
struct ImageRandomColorJitter {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;
  static constexpr OpTraits traits{.name = "_image_random_color_jitter", .random = true};
  static constexpr void fields(auto field) {
    field("brightness", &ImageRandomColorJitter::brightness, true);
    field("contrast", &ImageRandomColorJitter::contrast, true);
    field("saturation", &ImageRandomColorJitter::saturation, true);
    field("hue", &ImageRandomColorJitter::hue, true);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// Three numbers along the principal components of the colours of ImageNet are added (Krizhevsky, Sutskever, Hinton
// 2012); the random one draws them, normal with deviation alpha_std. Images of 1 channel stay.
struct ImageAdjustLighting {
  FloatTuple alpha{0.0f, 0.0f, 0.0f};
  static constexpr OpTraits traits{.name = "_image_adjust_lighting"};
  static constexpr void fields(auto field) { field("alpha", &ImageAdjustLighting::alpha, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
struct ImageRandomLighting {
  double alpha_std = 0.05;
  static constexpr OpTraits traits{.name = "_image_random_lighting", .random = true};
  static constexpr void fields(auto field) { field("alpha_std", &ImageRandomLighting::alpha_std); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op

}  // namespace kaon
