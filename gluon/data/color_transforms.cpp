// Transforms that change colours. The formulas are those of the operators nd.image_random_brightness and the like, for
// plain memory and the sample's random numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kaon/gluon/data/internal/resize.h"
#include "kaon/gluon/data/transforms.h"
#include "kaon/ops/image/image.h"

namespace kaon::gluon::data::vision::transforms {
namespace {

using ops::ColorChange;

// The pixels as float32 while colours change; stored as the image's dtype at the end.
class Colors {
 public:
  Colors(HostTensor image, const char* what) : image_(std::move(image)) {
    detail::check_image(image_, what);
    channels_ = image_.shape()[2];
    if (channels_ != 1 && channels_ != 3) {
      throw ShapeError(
          fmt::format("[{}] expected an image of 1 or 3 channels, got shape {}", what, image_.shape().str()));
    }
    if (image_.dtype() == DType::uint8) {
      const uint8_t* in = image_.as<uint8_t>();
      values_.assign(in, in + image_.size());
    } else if (image_.dtype() == DType::float32) {
      const float* in = image_.as<float>();
      values_.assign(in, in + image_.size());
    } else {
      throw TypeError(fmt::format("[{}] expected dtype uint8 or float32, got {}", what, name_of(image_.dtype())));
    }
  }

  bool is_grey() const { return channels_ == 1; }

  void change(ColorChange kind, float factor) {
    switch (kind) {
      case ColorChange::brightness:
        for (float& v : values_) v *= factor;
        return;
      case ColorChange::contrast: return mix_all(mean_grey() * (1 - factor), factor);
      case ColorChange::saturation:
        return each_pixel([&](float* p) {
          const float rest = grey(p) * (1 - factor);
          for (int c = 0; c < 3; ++c) p[c] = p[c] * factor + rest;
        });
      default: return each_pixel([&](float* p) { turn_hue(p, factor); });
    }
  }

  void add(const float (&light)[3]) {
    each_pixel([&](float* p) {
      for (int c = 0; c < 3; ++c) p[c] += light[c];
    });
  }

  HostTensor stored() && {
    if (image_.dtype() == DType::float32) {
      std::ranges::copy(values_, image_.mutable_as<float>());
    } else {  // cut to whole numbers of the range
      std::ranges::transform(values_, image_.mutable_as<uint8_t>(),
                             [](float v) { return uint8_t(std::clamp(v, 0.0f, 255.0f)); });
    }
    return std::move(image_);
  }

 private:
  static float grey(const float* p) { return p[0] * 0.299f + p[1] * 0.587f + p[2] * 0.114f; }

  template <class F>
  void each_pixel(F fn) {  // of three channels; others stay
    if (channels_ != 3) return;
    for (size_t i = 0; i < values_.size(); i += 3) fn(&values_[i]);
  }
  void mix_all(float rest, float factor) {
    for (float& v : values_) v = v * factor + rest;
  }
  float mean_grey() const {
    if (values_.empty()) return 0;
    const size_t channels = size_t(channels_), pixels = values_.size() / channels;
    float means[3]{};
    for (size_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (size_t i = c; i < values_.size(); i += channels) sum += double(values_[i]);
      means[c] = float(sum / double(pixels));
    }
    return channels == 1 ? means[0] : grey(means);
  }
  // Turned by `turns` whole turns, with the largest and the smallest number as they were (ops/image/color.cpp).
  static void turn_hue(float* p, float turns) {
    const float high = std::max({p[0], p[1], p[2]}), low = std::min({p[0], p[1], p[2]}), chroma = high - low;
    const float divisor = chroma == 0 ? 1 : chroma;
    const float hue = p[0] == high   ? (p[1] - p[2]) / divisor
                      : p[1] == high ? (p[2] - p[0]) / divisor + 2
                                     : (p[0] - p[1]) / divisor + 4;
    const float turned = hue + turns * 6;
    constexpr float own[]{0, 2, 4};
    for (int c = 0; c < 3; ++c) {
      float at = turned - (own[c] - 3);
      at -= 6 * std::floor(at / 6);
      p[c] = low + chroma * std::clamp(2 - std::abs(at - 3), 0.0f, 1.0f);
    }
  }

  HostTensor image_;
  int64_t channels_ = 0;
  std::vector<float> values_;
};

constexpr const char* names[]{"RandomBrightness", "RandomContrast", "RandomSaturation", "RandomHue"};

double checked_amount(const char* what, double amount) {
  if (!(amount >= 0) || !std::isfinite(amount)) {
    throw ValueError(fmt::format("[{}] expected an amount of at least 0, got {}", what, amount));
  }
  return amount;
}

float drawn_factor(double amount, SampleRandom& random) {
  const double low = std::max(0.0, 1 - amount);
  return float(low + (1 + amount - low) * double(random.uniform()));
}

}  // namespace

RandomColor::RandomColor(Kind kind, double amount)
    : kind_(kind), amount_(checked_amount(names[size_t(kind)], amount)) {}

HostTensor RandomColor::operator()(HostTensor image, SampleRandom& random) const {
  Colors colors(std::move(image), names[size_t(kind_)]);
  colors.change(ColorChange(kind_), drawn_factor(amount_, random));
  return std::move(colors).stored();
}

RandomColorJitter::RandomColorJitter(double brightness, double contrast, double saturation, double hue)
    : amounts_{brightness, contrast, saturation, hue} {
  for (double a : amounts_) checked_amount("RandomColorJitter", a);
}

HostTensor RandomColorJitter::operator()(HostTensor image, SampleRandom& random) const {
  Colors colors(std::move(image), "RandomColorJitter");
  for (size_t i = 0; i < amounts_.size(); ++i) {
    if (amounts_[i] > 0) colors.change(ColorChange(i), drawn_factor(amounts_[i], random));
  }
  return std::move(colors).stored();
}

RandomLighting::RandomLighting(double alpha) : alpha_(checked_amount("RandomLighting", alpha)) {}

HostTensor RandomLighting::operator()(HostTensor image, SampleRandom& random) const {
  // The principal components of ImageNet's colours and their deviations (Krizhevsky, Sutskever, Hinton 2012).
  constexpr float deviations[]{55.46f, 4.794f, 1.148f};
  constexpr float vectors[][3]{
      {-0.5675f, -0.5808f, -0.5836f}, {0.7192f, -0.0045f, -0.6948f}, {0.4009f, -0.8140f, 0.4203f}};
  Colors colors(std::move(image), "RandomLighting");
  float light[3]{};
  for (int j = 0; j < 3; ++j) {
    const float amount = float(alpha_) * random.normal() * deviations[j];
    for (int c = 0; c < 3; ++c) light[c] += amount * vectors[j][c];
  }
  colors.add(light);
  return std::move(colors).stored();
}

}  // namespace kaon::gluon::data::vision::transforms
