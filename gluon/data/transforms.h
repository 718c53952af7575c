// Transforms of images.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <optional>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/data/dataset.h"

namespace KAON_API kaon {
namespace gluon::data::vision {

// MXNet's transforms, for Dataset::transform_first and for Compose. Images are (height, width, channels), of uint8 or
// float32 where nothing else is said. Random ones draw the sample's own random numbers, so that an image depends on
// seed, epoch and index alone, never on threads. They run at the call, and throw ShapeError or TypeError for an image
// that does not fit, ValueError for options out of range. Thread safety: immutable; any thread.
namespace transforms {

// An image (height, width, channels) of uint8 as (channels, height, width) of float32 in [0, 1].
KAON_API HostTensor to_tensor(HostTensor image);
struct ToTensor {
  HostTensor operator()(HostTensor image) const { return to_tensor(std::move(image)); }
};

// y[c] = (x[c] - mean[c]) / std[c] over the channels of a float32 image (channels, height, width).
class Normalize {
 public:
  // A single value is for all channels. Throws ValueError when std has a zero, and for lengths that are 0 or differ.
  Normalize(std::vector<float> mean, std::vector<float> std);
  HostTensor operator()(HostTensor image) const;

 private:
  std::vector<float> mean_, std_;
};
inline Normalize normalize(std::vector<float> mean, std::vector<float> std) {
  return Normalize(std::move(mean), std::move(std));
}
inline Normalize normalize(float mean, float std) { return Normalize({mean}, {std}); }

// Converts the elements as C++ does; bool is x != 0. Any shape and dtype.
class Cast {
 public:
  explicit Cast(DType dtype = DType::float32);  // throws TypeError for an unknown dtype
  HostTensor operator()(HostTensor tensor) const;

 private:
  DType dtype_;
};
inline Cast cast(DType dtype) { return Cast(dtype); }

// Mirrors an image of any dtype with probability 1/2.
KAON_API HostTensor random_flip_left_right(HostTensor image, SampleRandom& random);
struct RandomFlipLeftRight {
  HostTensor operator()(HostTensor image, SampleRandom& random) const {
    return random_flip_left_right(std::move(image), random);
  }
};
struct RandomFlipTopBottom {
  HostTensor operator()(HostTensor image, SampleRandom& random) const;
};

// A number for both sides, or width and height, in this order as in MXNet.
struct ImageSize {
  ImageSize(int64_t side) : width(side), height(side), is_single(true) {}
  ImageSize(int64_t w, int64_t h) : width(w), height(h), is_single(false) {}
  int64_t width, height;
  bool is_single;
};

// Interpolations are OpenCV's, by number: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos; 9 is 2 for larger
// images, 3 for smaller ones and 1 for others; 10, for RandomResizedCrop, is one of 0 to 4 at random.
struct ResizeOptions {
  bool keep_ratio = false;  // a single number is the shorter side
  int interpolation = 1;
};
class Resize {
 public:
  explicit Resize(ImageSize size, const ResizeOptions& options = {});
  HostTensor operator()(HostTensor image) const;

 private:
  ImageSize size_;
  ResizeOptions options_;
};

// The middle; of an image that is smaller, the largest part of the size's proportions, enlarged.
class CenterCrop {
 public:
  explicit CenterCrop(ImageSize size, int interpolation = 1);
  HostTensor operator()(HostTensor image) const;

 private:
  ImageSize size_;
  int interpolation_;
};

// The part of `height` rows from row y on and `width` columns from column x on; at another size where one is given.
class CropResize {
 public:
  CropResize(int64_t x, int64_t y, int64_t width, int64_t height, std::optional<ImageSize> size = {},
             int interpolation = 1);
  HostTensor operator()(HostTensor image) const;

 private:
  int64_t x_, y_;
  ImageSize crop_;
  std::optional<ImageSize> size_;
  int interpolation_;
};

struct Range {
  double low, high;
};
struct RandomCropOptions {
  Range scale{0.08, 1};           // of the part's area, by that of the image
  Range ratio{3.0 / 4, 4.0 / 3};  // of its width, by its height; its logarithm is uniform
  int interpolation = 1;
};
// A part of random area, proportions and place, at the size. After ten attempts that do not lie in the image:
// CenterCrop.
class RandomResizedCrop {
 public:
  explicit RandomResizedCrop(ImageSize size, const RandomCropOptions& options = {});
  HostTensor operator()(HostTensor image, SampleRandom& random) const;

 private:
  ImageSize size_;
  RandomCropOptions options_;
};

// Turned around the middle, clockwise for negative angles, bilinear; what was outside is 0. float32 (channels, height,
// width).
struct RotateOptions {
  bool zoom_in = false;   // so far that nothing from outside is seen
  bool zoom_out = false;  // so far that the whole image is
};
class Rotate {
 public:
  explicit Rotate(double rotation_degrees, const RotateOptions& options = {});
  HostTensor operator()(HostTensor image) const;

 private:
  double degrees_;
  RotateOptions options_;
};

struct RandomRotationOptions {
  bool zoom_in = false;
  bool zoom_out = false;
  double rotate_with_proba = 1;
};
// By an angle that is uniform between the two.
class RandomRotation {
 public:
  RandomRotation(double from_degrees, double to_degrees, const RandomRotationOptions& options = {});
  HostTensor operator()(HostTensor image, SampleRandom& random) const;

 private:
  double from_, to_;
  RandomRotationOptions options_;
};

// By a factor f that is uniform in [max(0, 1 - amount), 1 + amount], as nd.image_random_brightness and the like compute
// it, images of 1 or 3 channels; uint8 is cut to whole numbers from 0 to 255.
class RandomColor {
 public:
  HostTensor operator()(HostTensor image, SampleRandom& random) const;

 protected:
  enum class Kind : uint8_t { brightness, contrast, saturation, hue };
  RandomColor(Kind kind, double amount);

 private:
  Kind kind_;
  double amount_;
};
class RandomBrightness : public RandomColor {
 public:
  explicit RandomBrightness(double brightness) : RandomColor(Kind::brightness, brightness) {}
};
class RandomContrast : public RandomColor {
 public:
  explicit RandomContrast(double contrast) : RandomColor(Kind::contrast, contrast) {}
};
class RandomSaturation : public RandomColor {
 public:
  explicit RandomSaturation(double saturation) : RandomColor(Kind::saturation, saturation) {}
};
class RandomHue : public RandomColor {
 public:
  explicit RandomHue(double hue) : RandomColor(Kind::hue, hue) {}
};

// These four in this order; one whose amount is 0 is left out.
class RandomColorJitter {
 public:
  explicit RandomColorJitter(double brightness = 0, double contrast = 0, double saturation = 0, double hue = 0);
  HostTensor operator()(HostTensor image, SampleRandom& random) const;

 private:
  std::array<double, 4> amounts_;
};

// Adds three numbers, normal with deviation alpha, along the principal components of the colours of ImageNet, as
// nd.image_random_lighting. Images of 1 channel stay.
class RandomLighting {
 public:
  explicit RandomLighting(double alpha);
  HostTensor operator()(HostTensor image, SampleRandom& random) const;

 private:
  double alpha_;
};

// Any transform, HostTensor -> HostTensor with or without SampleRandom&. Called from several threads at once.
class Transform {
 public:
  template <detail::TensorTransform F>
    requires(!std::same_as<F, Transform>)
  Transform(F fn) {
    if constexpr (std::is_invocable_r_v<HostTensor, F&, HostTensor, SampleRandom&>) {
      fn_ = std::move(fn);
    } else {
      fn_ = [fn = std::move(fn)](HostTensor image, SampleRandom&) mutable { return fn(std::move(image)); };
    }
  }
  HostTensor operator()(HostTensor image, SampleRandom& random) const { return fn_(std::move(image), random); }

 private:
  std::function<HostTensor(HostTensor, SampleRandom&)> fn_;
};

// One after another: Compose({Resize(256), CenterCrop(224), ToTensor()}). Called on an image alone, it draws as for
// sample 0 in epoch 0 of seed 0.
class Compose {
 public:
  Compose(std::vector<Transform> transforms) : transforms_(std::move(transforms)) {}
  HostTensor operator()(HostTensor image, SampleRandom& random) const;
  HostTensor operator()(HostTensor image) const;

 private:
  std::vector<Transform> transforms_;
};
using HybridCompose = Compose;

// A transform, or several by way of Compose, with probability p.
class RandomApply {
 public:
  explicit RandomApply(Transform transform, double p = 0.5);
  HostTensor operator()(HostTensor image, SampleRandom& random) const;

 private:
  Transform transform_;
  double p_;
};
using HybridRandomApply = RandomApply;

}  // namespace transforms
}  // namespace gluon::data::vision
}  // namespace kaon
