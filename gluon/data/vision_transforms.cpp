#include "kaon/gluon/data/transforms.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/gluon/data/internal/resize.h"
#include "kaon/ops/math/dispatch.h"

namespace kaon::gluon::data::vision::transforms {

using namespace graph;
namespace {

template <class S, class D>
void convert(const S* in, D* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<S, float16> || std::is_same_v<S, bfloat16>) {
      out[i] = D(float(in[i]));
    } else if constexpr (std::is_same_v<D, float16> || std::is_same_v<D, bfloat16>) {
      out[i] = D(float(in[i]));
    } else {
      out[i] = D(in[i]);
    }
  }
}

}  // namespace

HostTensor to_tensor(HostTensor image) {
  detail::check_image(image, "to_tensor");
  const int64_t pixels = image.shape()[0] * image.shape()[1], channels = image.shape()[2];
  HostTensor result({channels, image.shape()[0], image.shape()[1]}, DType::float32);
  const uint8_t* in = image.as<uint8_t>();
  float* out = result.mutable_as<float>();
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < pixels; ++i) out[c * pixels + i] = float(in[i * channels + c]) / 255.0f;
  }
  return result;
}

Normalize::Normalize(std::vector<float> mean, std::vector<float> std) : mean_(std::move(mean)), std_(std::move(std)) {
  if (mean_.empty() || mean_.size() != std_.size()) {
    throw ValueError(fmt::format("[normalize] expected as many means as standard deviations, got {} and {}",
                                 mean_.size(), std_.size()));
  }
  for (float s : std_) {
    if (s == 0) throw ValueError("[normalize] std: expected no zero, got 0");
  }
}

HostTensor Normalize::operator()(HostTensor image) const {
  detail::check_image(image, "normalize", "channels, height, width");
  const int64_t channels = image.shape()[0], pixels = image.shape()[1] * image.shape()[2];
  if (mean_.size() != 1 && int64_t(mean_.size()) != channels) {
    throw ShapeError(fmt::format("[normalize] expected {} channels, got shape {}", mean_.size(), image.shape().str()));
  }
  float* x = image.mutable_as<float>();
  for (int64_t c = 0; c < channels; ++c) {
    const size_t k = mean_.size() == 1 ? 0 : size_t(c);
    for (int64_t i = 0; i < pixels; ++i) x[c * pixels + i] = (x[c * pixels + i] - mean_[k]) / std_[k];
  }
  return image;
}

HostTensor random_flip_left_right(HostTensor image, SampleRandom& random) {
  detail::check_image(image, "random_flip_left_right");
  if (!random.chance(0.5)) return image;
  const int64_t height = image.shape()[0], width = image.shape()[1];
  const size_t pixel = size_t(image.shape()[2]) * size_of(image.dtype());
  std::byte* data = image.mutable_data();
  for (int64_t y = 0; y < height; ++y) {
    std::byte* row = data + size_t(y * width) * pixel;
    for (int64_t left = 0, right = width - 1; left < right; ++left, --right) {
      std::swap_ranges(row + size_t(left) * pixel, row + size_t(left + 1) * pixel, row + size_t(right) * pixel);
    }
  }
  return image;
}

Cast::Cast(DType dtype) : dtype_(dtype) {
  if (!is_valid(dtype)) throw TypeError(fmt::format("[cast] unknown dtype number {}", int(dtype)));
}

HostTensor Cast::operator()(HostTensor tensor) const {
  if (!tensor.defined() || tensor.dtype() == dtype_) return tensor;
  HostTensor result(tensor.shape(), dtype_);
  dispatch_all("cast", tensor.dtype(), [&]<class S>() {
    dispatch_all("cast", dtype_, [&]<class D>() { convert(tensor.as<S>(), result.mutable_as<D>(), tensor.size()); });
  });
  return result;
}

}  // namespace kaon::gluon::data::vision::transforms
