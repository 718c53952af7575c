// Transforms that cut, resize, mirror and turn images, and those that are made of others.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kaon/gluon/data/internal/resize.h"
#include "kaon/gluon/data/transforms.h"

namespace kaon::gluon::data::vision::transforms {
namespace {

using detail::check_image;

ImageSize checked(const char* what, const ImageSize& size) {
  constexpr int64_t most = 1 << 20;
  if (size.width < 1 || size.height < 1 || size.width > most || size.height > most) {
    throw ValueError(fmt::format("[{}] size: expected 1 to {}, got {} x {}", what, most, size.width, size.height));
  }
  return size;
}

int checked_interpolation(const char* what, int interpolation, bool is_random = false) {
  if (interpolation == 9 || (interpolation >= 0 && interpolation <= 4) || (is_random && interpolation == 10)) {
    return interpolation;
  }
  throw ValueError(fmt::format("[{}] interpolation: expected 0 to 4 or 9{}, got {}", what, is_random ? " or 10" : "",
                               interpolation));
}

HostTensor resized_unless_equal(HostTensor image, const ImageSize& size, int interpolation, const char* what) {
  if (image.shape()[1] == size.width && image.shape()[0] == size.height) return image;
  return detail::resized(image, size.width, size.height, interpolation, what);
}

// The middle, as large as `size` or as a smaller rectangle of its proportions; then at that size.
HostTensor center_cropped(const HostTensor& image, const ImageSize& size, int interpolation, const char* what) {
  const int64_t height = image.shape()[0], width = image.shape()[1];
  double w = double(size.width), h = double(size.height);
  if (double(height) < h) w = w * double(height) / h, h = double(height);
  if (double(width) < w) h = h * double(width) / w, w = double(width);
  const auto new_width = int64_t(w), new_height = int64_t(h);
  HostTensor part = detail::cropped(image, (width - new_width) / 2, (height - new_height) / 2, new_width, new_height);
  return resized_unless_equal(std::move(part), size, interpolation, what);
}

void swap_rows(HostTensor& image) {
  const int64_t height = image.shape()[0];
  const size_t row = size_t(image.shape()[1] * image.shape()[2]) * size_of(image.dtype());
  std::byte* data = image.mutable_data();
  for (int64_t top = 0, bottom = height - 1; top < bottom; ++top, --bottom) {
    std::swap_ranges(data + size_t(top) * row, data + size_t(top + 1) * row, data + size_t(bottom) * row);
  }
}

int64_t floor_of(double x) {  // std::floor is a call on older CPUs
  const auto whole = int64_t(x);
  return x < double(whole) ? whole - 1 : whole;
}

// Pixel (x, y) of the result is that of the image at (x cos a - y sin a, x sin a + y cos a), with the origin in the
// middle: between four pixels by their distances; 0 outside.
HostTensor rotated(const HostTensor& image, double degrees, const RotateOptions& options, const char* what) {
  check_image(image, what, "channels, height, width");
  if (image.dtype() != DType::float32) {
    throw TypeError(
        fmt::format("[{}] expected dtype float32, as after ToTensor, got {}", what, name_of(image.dtype())));
  }
  const int64_t channels = image.shape()[0], height = image.shape()[1], width = image.shape()[2];
  const double angle = std::numbers::pi * degrees / 180, cosine = std::cos(angle), sine = std::sin(angle);
  double scale = 1;
  if (options.zoom_in || options.zoom_out) {
    // the sides of the upright rectangle around the turned one
    const double across = std::abs(cosine) * double(width) + std::abs(sine) * double(height);
    const double down = std::abs(sine) * double(width) + std::abs(cosine) * double(height);
    scale = options.zoom_out ? std::max(across / double(width), down / double(height))
                             : std::min(double(width) / across, double(height) / down);
  }
  HostTensor result(image.shape(), DType::float32);
  const float* in = image.as<float>();
  float* out = result.mutable_as<float>();
  const double middle_x = double(width - 1) / 2, middle_y = double(height - 1) / 2;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const double dx = double(x) - middle_x, dy = double(y) - middle_y;
      const double from_x = (dx * cosine - dy * sine) * scale + middle_x;
      const double from_y = (dx * sine + dy * cosine) * scale + middle_y;
      const int64_t left = floor_of(from_x), top = floor_of(from_y);
      const auto part_x = float(from_x - double(left)), part_y = float(from_y - double(top));
      for (int corner = 0; corner < 4; ++corner) {
        const int64_t at_x = left + corner % 2, at_y = top + corner / 2;
        if (at_x < 0 || at_x >= width || at_y < 0 || at_y >= height) continue;
        const float weight = (corner % 2 ? part_x : 1 - part_x) * (corner / 2 ? part_y : 1 - part_y);
        for (int64_t c = 0; c < channels; ++c) {
          out[(c * height + y) * width + x] += weight * in[(c * height + at_y) * width + at_x];
        }
      }
    }
  }
  return result;
}

void check_zoom(const char* what, const RotateOptions& options) {
  if (options.zoom_in && options.zoom_out) {
    throw ValueError(fmt::format("[{}] zoom_in and zoom_out must not both be true", what));
  }
}

double uniform(double low, double high, SampleRandom& random) { return low + (high - low) * double(random.uniform()); }

}  // namespace

Resize::Resize(ImageSize size, const ResizeOptions& options) : size_(checked("Resize", size)), options_(options) {
  checked_interpolation("Resize", options.interpolation);
}

HostTensor Resize::operator()(HostTensor image) const {
  check_image(image, "Resize");
  ImageSize size = size_;
  const int64_t height = image.shape()[0], width = image.shape()[1];
  if (options_.keep_ratio && size.is_single && height > 0 && width > 0) {
    if (height > width) {
      size.height = std::max<int64_t>(height * size.width / width, 1);
    } else {
      size.width = std::max<int64_t>(width * size.height / height, 1);
    }
  }
  return resized_unless_equal(std::move(image), size, options_.interpolation, "Resize");
}

CenterCrop::CenterCrop(ImageSize size, int interpolation)
    : size_(checked("CenterCrop", size)), interpolation_(checked_interpolation("CenterCrop", interpolation)) {}

HostTensor CenterCrop::operator()(HostTensor image) const {
  check_image(image, "CenterCrop");
  return center_cropped(image, size_, interpolation_, "CenterCrop");
}

CropResize::CropResize(int64_t x, int64_t y, int64_t width, int64_t height, std::optional<ImageSize> size,
                       int interpolation)
    : x_(x), y_(y), crop_(checked("CropResize", ImageSize(width, height))), size_(size), interpolation_(interpolation) {
  if (size) checked("CropResize", *size);
  if (x < 0 || y < 0) throw ValueError(fmt::format("[CropResize] x and y: expected at least 0, got {} and {}", x, y));
  checked_interpolation("CropResize", interpolation);
}

HostTensor CropResize::operator()(HostTensor image) const {
  check_image(image, "CropResize");
  if (x_ + crop_.width > image.shape()[1] || y_ + crop_.height > image.shape()[0]) {
    throw ShapeError(
        fmt::format("[CropResize] {} columns from {} on and {} rows from {} on do not lie in an image of shape {}",
                    crop_.width, x_, crop_.height, y_, image.shape().str()));
  }
  HostTensor part = detail::cropped(image, x_, y_, crop_.width, crop_.height);
  return size_ ? resized_unless_equal(std::move(part), *size_, interpolation_, "CropResize") : part;
}

RandomResizedCrop::RandomResizedCrop(ImageSize size, const RandomCropOptions& options)
    : size_(checked("RandomResizedCrop", size)), options_(options) {
  checked_interpolation("RandomResizedCrop", options.interpolation, true);
  if (!(options.scale.low > 0 && options.scale.low <= options.scale.high && options.scale.high < 1e6)) {
    throw ValueError(fmt::format("[RandomResizedCrop] scale: expected positive numbers in order, got {} and {}",
                                 options.scale.low, options.scale.high));
  }
  if (!(options.ratio.low > 0 && options.ratio.low <= options.ratio.high && options.ratio.high < 1e6)) {
    throw ValueError(fmt::format("[RandomResizedCrop] ratio: expected positive numbers in order, got {} and {}",
                                 options.ratio.low, options.ratio.high));
  }
}

HostTensor RandomResizedCrop::operator()(HostTensor image, SampleRandom& random) const {
  check_image(image, "RandomResizedCrop");
  const int64_t height = image.shape()[0], width = image.shape()[1];
  const int interpolation = options_.interpolation == 10 ? int(random.below(5)) : options_.interpolation;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = uniform(options_.scale.low, options_.scale.high, random) * double(height * width);
    const double ratio = std::exp(uniform(std::log(options_.ratio.low), std::log(options_.ratio.high), random));
    const auto w = int64_t(std::nearbyint(std::sqrt(area * ratio))),
               h = int64_t(std::nearbyint(std::sqrt(area / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int64_t x = random.below(width - w + 1), y = random.below(height - h + 1);
    return resized_unless_equal(detail::cropped(image, x, y, w, h), size_, interpolation, "RandomResizedCrop");
  }
  return center_cropped(image, size_, interpolation, "RandomResizedCrop");
}

HostTensor RandomFlipTopBottom::operator()(HostTensor image, SampleRandom& random) const {
  check_image(image, "RandomFlipTopBottom");
  if (random.chance(0.5)) swap_rows(image);
  return image;
}

Rotate::Rotate(double rotation_degrees, const RotateOptions& options) : degrees_(rotation_degrees), options_(options) {
  if (!std::isfinite(degrees_)) throw ValueError(fmt::format("[Rotate] expected a finite angle, got {}", degrees_));
  check_zoom("Rotate", options);
}

HostTensor Rotate::operator()(HostTensor image) const { return rotated(image, degrees_, options_, "Rotate"); }

RandomRotation::RandomRotation(double from_degrees, double to_degrees, const RandomRotationOptions& options)
    : from_(from_degrees), to_(to_degrees), options_(options) {
  if (!(from_ < to_) || !std::isfinite(from_) || !std::isfinite(to_)) {
    throw ValueError(fmt::format("[RandomRotation] expected two angles in order, got {} and {}", from_, to_));
  }
  if (!(options.rotate_with_proba >= 0 && options.rotate_with_proba <= 1)) {
    throw ValueError(
        fmt::format("[RandomRotation] rotate_with_proba: expected 0 to 1, got {}", options.rotate_with_proba));
  }
  check_zoom("RandomRotation", {options.zoom_in, options.zoom_out});
}

HostTensor RandomRotation::operator()(HostTensor image, SampleRandom& random) const {
  if (!random.chance(options_.rotate_with_proba)) return image;
  return rotated(image, uniform(from_, to_, random), {options_.zoom_in, options_.zoom_out}, "RandomRotation");
}

HostTensor Compose::operator()(HostTensor image, SampleRandom& random) const {
  for (const Transform& transform : transforms_) image = transform(std::move(image), random);
  return image;
}

HostTensor Compose::operator()(HostTensor image) const {
  SampleRandom random(0, 0, 0);
  return (*this)(std::move(image), random);
}

RandomApply::RandomApply(Transform transform, double p) : transform_(std::move(transform)), p_(p) {
  if (!(p >= 0 && p <= 1)) throw ValueError(fmt::format("[RandomApply] p: expected 0 to 1, got {}", p));
}

HostTensor RandomApply::operator()(HostTensor image, SampleRandom& random) const {
  return random.chance(p_) ? transform_(std::move(image), random) : image;
}

}  // namespace kaon::gluon::data::vision::transforms
