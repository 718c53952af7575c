#include "kaon/gluon/nn/resize.h"

#include <fmt/format.h>

#include "kaon/gluon/nn/conv.h"

namespace kaon::gluon::nn {
namespace detail {

template <class Derived>
PixelShuffle<Derived>::PixelShuffle(int axes, const Shape& factor)
    : HybridBlock<Derived>(fmt::format("pixelshuffle{}d", axes)) {
  constexpr int64_t same = 0, rest = -1, others = -2, merge = -3, split = -4;
  const Shape f = window(factor, axes, 1, "PixelShuffle factor");
  for (int i = 0; i < axes; ++i) {  // (batch, channels, f1, ..., f_i f_(i+1) ..., positions)
    Shape codes = Shape::filled(1 + i, same);
    codes.push_back(split);
    codes.push_back(i == 0 ? rest : f[i - 1]);
    codes.push_back(f.product(i, axes));
    codes.push_back(others);
    splits_.push_back(codes);
  }
  order_ = Shape(0, 1), merged_ = Shape(same, same);
  for (int i = 0; i < axes; ++i) {
    order_.push_back(2 + axes + i), order_.push_back(2 + i);
    merged_.push_back(merge);
  }
}

template class PixelShuffle<PixelShuffle1D>;
template class PixelShuffle<PixelShuffle2D>;
template class PixelShuffle<PixelShuffle3D>;

}  // namespace detail

PixelShuffle1D::PixelShuffle1D(int factor) : PixelShuffle(1, Shape(factor)) {}
PixelShuffle2D::PixelShuffle2D(const Shape& factor) : PixelShuffle(2, factor) {}
PixelShuffle3D::PixelShuffle3D(const Shape& factor) : PixelShuffle(3, factor) {}

ReflectionPad2D::ReflectionPad2D(int64_t padding) : HybridBlock("reflectionpad2d") {
  if (padding < 0) throw ValueError(fmt::format("[ReflectionPad2D] padding must not be negative, got {}", padding));
  width_ = Shape(0, 0, 0, 0, padding, padding, padding, padding);
}

Upsample::Upsample(int scale, const UpsampleOptions& options)
    : HybridBlock("upsample"), scale_(scale), options_(options) {
  if (scale < 1) throw ValueError(fmt::format("[Upsample] scale must be positive, got {}", scale));
}

AdaptiveAvgPool2D::AdaptiveAvgPool2D(const Shape& output_size)
    : HybridBlock("adaptiveavgpool2d"),
      output_size_(detail::window(output_size, 2, 1, "AdaptiveAvgPool2D output_size")) {}

}  // namespace kaon::gluon::nn
