#include "kaon/mxnet/records/image_transforms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "kaon/engine/error.h"
#include "kaon/ops/ndarray_file.h"

namespace kaon::mxnet {

using namespace gluon::data;
using namespace gluon::data::vision;
using transforms::ImageSize;

namespace {

// The part of a height and a width that an image must have, or a larger image's middle or another part of it. Smaller
// images are enlarged first, in their proportions.
class Crop {
 public:
  Crop(int64_t height, int64_t width, bool is_random, int interpolation)
      : height_(height), width_(width), is_random_(is_random), interpolation_(interpolation) {}

  HostTensor operator()(HostTensor image, SampleRandom& random) const {
    const int64_t rows = image.shape()[0], columns = image.shape()[1];
    if (rows == height_ && columns == width_) return image;
    if (rows < height_ || columns < width_) {
      const double scale = std::max(double(height_) / double(rows), double(width_) / double(columns));
      const ImageSize size(std::max(width_, int64_t(double(columns) * scale)),
                           std::max(height_, int64_t(double(rows) * scale)));
      image = transforms::Resize(size, {.interpolation = interpolation_})(std::move(image));
    }
    const int64_t y = place(image.shape()[0] - height_, random), x = place(image.shape()[1] - width_, random);
    return transforms::CropResize(x, y, width_, height_)(std::move(image));
  }

 private:
  int64_t place(int64_t room, SampleRandom& random) const { return is_random_ ? random.below(room + 1) : room / 2; }

  int64_t height_, width_;
  bool is_random_;
  int interpolation_;
};

}  // namespace

HostTensor padded(const HostTensor& image, int64_t top, int64_t left, int64_t height, int64_t width, uint8_t fill) {
  const int64_t rows = image.shape()[0], columns = image.shape()[1], channels = image.shape()[2];
  HostTensor out(Shape(height, width, channels), DType::uint8);
  uint8_t* to = out.mutable_as<uint8_t>();
  std::memset(to, fill, out.bytes());
  for (int64_t y = 0; y < rows; ++y) {
    std::memcpy(to + ((top + y) * width + left) * channels, image.as<uint8_t>() + y * columns * channels,
                size_t(columns * channels));
  }
  return out;
}

HostTensor mirrored(HostTensor image) {
  const int64_t rows = image.shape()[0], columns = image.shape()[1], channels = image.shape()[2];
  uint8_t* at = image.mutable_as<uint8_t>();
  for (int64_t y = 0; y < rows; ++y, at += columns * channels) {
    for (int64_t a = 0, b = columns - 1; a < b; ++a, --b) {
      std::swap_ranges(at + a * channels, at + (a + 1) * channels, at + b * channels);
    }
  }
  return image;
}

std::vector<Transform> image_transforms(const IteratorAttributes& attributes, const Shape& shape) {
  attributes.refuse_unless_default({"aug_seq", "max_rotate_angle", "max_shear_ratio", "max_random_scale",
                                    "min_random_scale", "max_img_size", "min_img_size", "rotate", "random_h",
                                    "random_s", "random_l"});
  const int interpolation = int(attributes.integer("inter_method"));
  const int64_t height = shape[1], width = shape[2];
  std::vector<Transform> all;
  if (const int64_t side = attributes.integer("resize"); side > 0) {
    all.emplace_back(transforms::Resize(side, {.keep_ratio = true, .interpolation = interpolation}));
  }
  if (const int64_t pad = attributes.integer("pad"); pad > 0) {
    const auto fill = uint8_t(std::clamp<int64_t>(attributes.integer("fill_value"), 0, 255));
    all.emplace_back([pad, fill](HostTensor image) {
      return padded(image, pad, pad, image.shape()[0] + 2 * pad, image.shape()[1] + 2 * pad, fill);
    });
  }
  const double ratio = attributes.number("max_aspect_ratio");
  const int64_t least = attributes.integer("min_crop_size"), most = attributes.integer("max_crop_size");
  const bool is_random = attributes.flag("rand_crop");
  if (attributes.flag("random_resized_crop")) {
    const std::optional<double> least_ratio = attributes.maybe_number("min_aspect_ratio");
    all.emplace_back(transforms::RandomResizedCrop(
        ImageSize(width, height),
        {.scale = {attributes.number("min_random_area"), attributes.number("max_random_area")},
         .ratio = {least_ratio.value_or(1 - ratio), least_ratio ? ratio : 1 + ratio},
         .interpolation = interpolation}));
  } else {
    attributes.refuse_unless_default({"max_aspect_ratio", "min_aspect_ratio"});
    if (most != -1 || least != -1) {
      if (least < 1 || most < least) {
        attributes.fail("min_crop_size",
                        fmt::format("expected 0 < min_crop_size <= max_crop_size, got {} and {}", least, most));
      }
      all.emplace_back([=](HostTensor image, SampleRandom& random) {
        const int64_t side = least + random.below(most - least + 1);
        image = Crop(side, side, is_random, interpolation)(std::move(image), random);
        return transforms::Resize(ImageSize(width, height), {.interpolation = interpolation})(std::move(image));
      });
    } else {
      all.emplace_back(Crop(height, width, is_random, interpolation));
    }
  }
  const double brightness = attributes.number("brightness"), contrast = attributes.number("contrast"),
               saturation = attributes.number("saturation"), noise = attributes.number("pca_noise");
  if (brightness > 0 || contrast > 0 || saturation > 0) {
    all.emplace_back(transforms::RandomColorJitter(brightness, contrast, saturation));
  }
  if (noise > 0) all.emplace_back(transforms::RandomLighting(noise));
  return all;
}

Normalizer::Normalizer(const IteratorAttributes& attributes, const Shape& shape, DType dtype, const Dataset& images)
    : shape_(shape), dtype_(dtype) {
  if (attributes.has("mirror")) mirror_ = attributes.flag("mirror");
  if (attributes.has("rand_mirror")) random_mirror_ = attributes.flag("rand_mirror");
  if (!attributes.has("mean_r")) return;  // the iterators of whole numbers
  for (const char* channel : {"r", "g", "b", "a"}) {
    mean_.push_back(float(attributes.number(std::string("mean_") + channel)));
    const float deviation = float(attributes.number(std::string("std_") + channel));
    deviation_.push_back(deviation > 0 ? deviation : 1);
  }
  scale_ = float(attributes.number("scale"));
  if (attributes.has("max_random_contrast") && attributes.has("max_random_illumination")) {
    contrast_ = attributes.number("max_random_contrast");
    illumination_ = attributes.number("max_random_illumination");
  }
  const std::string file = attributes.text("mean_img");
  if (file.empty()) return;
  if (std::filesystem::exists(file)) {
    for (const auto& [name, array] : nd_file::load(file)) mean_image_ = HostTensor::copy_of(array);
    if (!mean_image_.defined() || mean_image_.shape() != shape || mean_image_.dtype() != DType::float32) {
      attributes.fail("mean_img", fmt::format("expected {} with an array of float32 {}, got {} {}", file, shape.str(),
                                              mean_image_.defined() ? name_of(mean_image_.dtype()) : "none",
                                              mean_image_.shape().str()));
    }
    return;
  }
  std::vector<double> sum(size_t(shape.size()));
  Normalizer plain(*this);
  plain.mirror_ = plain.random_mirror_ = false;
  plain.mean_.assign(4, 0), plain.deviation_.assign(4, 1), plain.scale_ = 1;
  plain.contrast_ = plain.illumination_ = 0;
  SampleRandom random(0, 0, 0);
  for (int64_t i = 0; i < images.size(); ++i) {
    const HostTensor image = plain(images.get(i).data, random);
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += image.as<float>()[k];
  }
  mean_image_ = HostTensor(shape, DType::float32);
  for (size_t k = 0; k < sum.size(); ++k) mean_image_.mutable_as<float>()[k] = float(sum[k] / double(images.size()));
  nd_file::save(file, {{"mean_img", mean_image_.to_array()}});
}

HostTensor Normalizer::operator()(const HostTensor& given, SampleRandom& random) const {
  const bool is_mirrored = mirror_ || (random_mirror_ && random.chance(0.5));
  const HostTensor image = is_mirrored ? mirrored(given) : given;
  const int64_t pixels = image.shape()[0] * image.shape()[1], channels = image.shape()[2];
  HostTensor out(shape_, dtype_);
  const uint8_t* from = image.as<uint8_t>();
  const auto put = [&]<class T>(T* to, auto convert) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t i = 0; i < pixels; ++i, ++to) *to = convert(from[i * channels + c], c, c * pixels + i);
    }
  };
  if (dtype_ == DType::uint8) {
    put(out.mutable_as<uint8_t>(), [](uint8_t x, int64_t, int64_t) { return x; });
  } else if (dtype_ == DType::int8) {
    put(out.mutable_as<int8_t>(), [](uint8_t x, int64_t, int64_t) { return int8_t(std::min<uint8_t>(x, 127)); });
  } else {
    const float contrast = contrast_ > 0 ? float(1 + contrast_ * (2 * random.uniform() - 1)) : 1;
    const float illumination = illumination_ > 0 ? float(illumination_ * (2 * random.uniform() - 1)) : 0;
    const float* mean = mean_image_.defined() ? mean_image_.as<float>() : nullptr;
    put(out.mutable_as<float>(), [&](uint8_t x, int64_t c, int64_t at) {
      const float centred = float(x) - (mean ? mean[at] : mean_[size_t(c)]);
      return (centred * contrast + illumination) * scale_ / (mean ? 1 : deviation_[size_t(c)]);
    });
  }
  return out;
}

}  // namespace kaon::mxnet
