// Layers that change the size of images: pixel shuffles, padding, upsampling, adaptive pooling.
#pragma once

#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon::nn {

namespace detail {

template <class Derived>
class PixelShuffle : public HybridBlock<Derived> {
 public:
  auto hybrid_forward(auto F, auto x) {
    for (const Shape& split : splits_) x = F.reshape(x, split);
    return F.reshape(F.transpose(x, order_), merged_);
  }

 protected:
  PixelShuffle(int axes, const Shape& factor);

 private:
  std::vector<Shape> splits_;  // channels to (channels, f1, f2, ...), in reshape's codes
  Shape order_, merged_;
};

}  // namespace detail

// Channels become positions (Shi et al. 2016): (batch, channels factor, width) to (batch, channels, width factor). A
// factor of one number holds for every axis; below, there are as many factors as axes. Throw ValueError for factors
// below 1; calls throw ShapeError for channels that the factors do not divide.
struct PixelShuffle1D : detail::PixelShuffle<PixelShuffle1D> {
  explicit PixelShuffle1D(int factor);
};
// (batch, channels f1 f2, height, width) to (batch, channels, height f1, width f2).
struct PixelShuffle2D : detail::PixelShuffle<PixelShuffle2D> {
  explicit PixelShuffle2D(const Shape& factor);
};
// The same with depth, height and width.
struct PixelShuffle3D : detail::PixelShuffle<PixelShuffle3D> {
  explicit PixelShuffle3D(const Shape& factor);
};

// Images with `padding` more rows and columns at each edge, which mirror those inside the edge. Throws ValueError for a
// negative padding; calls throw for one as large as the image.
struct ReflectionPad2D : HybridBlock<ReflectionPad2D> {
  explicit ReflectionPad2D(int64_t padding = 0);
  auto hybrid_forward(auto F, auto x) { return F.pad(x, {.mode = PadMode::reflect, .pad_width = width_}); }

 private:
  Shape width_;
};

enum class UpsampleMode : uint8_t { nearest, bilinear };

struct UpsampleOptions {
  UpsampleMode mode = UpsampleMode::nearest;
  bool align_corners = false;  // bilinear: the centres of the corner pixels stay at the corners
};

// Images (batch, channels, height, width) `scale` times as high and wide: each pixel repeated, or between pixels the
// bilinear mean. Throws ValueError for a scale below 1.
struct Upsample : HybridBlock<Upsample> {
  explicit Upsample(int scale, const UpsampleOptions& options = {});
  auto hybrid_forward(auto F, auto x) {
    if (options_.mode == UpsampleMode::nearest) {
      return F.UpSampling(x, {.scale = scale_, .sample_type = UpSamplingType::nearest});
    }
    return F.BilinearResize2D(x,
                              {.scale_height = scale_, .scale_width = scale_, .align_corners = options_.align_corners});
  }

 private:
  int scale_;
  UpsampleOptions options_;
};

// The means of output_size windows of about the same size: (batch, channels, height, width) to (batch, channels,
// output_size). One number holds for both axes.
struct AdaptiveAvgPool2D : HybridBlock<AdaptiveAvgPool2D> {
  explicit AdaptiveAvgPool2D(const Shape& output_size = Shape(1));
  auto hybrid_forward(auto F, auto x) { return F.AdaptiveAvgPooling2D(x, output_size_); }

 private:
  Shape output_size_;
};

}  // namespace gluon::nn
}  // namespace kaon
