// Pooling layers for images: x (batch, channels, height, width).
#pragma once

#include "kaon/gluon/block.h"

namespace kaon::gluon::nn {

// Window sizes of one number hold for both axes.
struct MaxPool2DOptions {
  Shape pool_size{2};
  Shape strides{};  // empty: pool_size
  Shape padding{0};
  bool ceil_mode = false;  // round the number of windows up instead of down
};
struct AvgPool2DOptions {
  Shape pool_size{2};
  Shape strides{};
  Shape padding{0};
  bool ceil_mode = false;
  bool count_include_pad = true;  // divide by the size of the window rather than by its elements inside the image
};
static_assert(std::is_trivially_destructible_v<MaxPool2DOptions> && std::is_trivially_destructible_v<AvgPool2DOptions>);

namespace detail {
template <class Derived>
class Pool : public HybridBlock<Derived> {
 public:
  auto hybrid_forward(auto F, auto x) { return F.as("fwd").Pooling(x, op_); }

 protected:
  explicit Pool(const kaon::Pooling& op) : HybridBlock<Derived>("pool"), op_(op) {}

 private:
  kaon::Pooling op_;
};
}  // namespace detail

// The maximum of each window; (size + 2 padding - pool_size) / strides + 1 windows per axis.
struct MaxPool2D : detail::Pool<MaxPool2D> {
  explicit MaxPool2D(const MaxPool2DOptions& options = {});
};
// The mean of each window.
struct AvgPool2D : detail::Pool<AvgPool2D> {
  explicit AvgPool2D(const AvgPool2DOptions& options = {});
};
// The maximum of each channel: (batch, channels, 1, 1).
struct GlobalMaxPool2D : detail::Pool<GlobalMaxPool2D> {
  GlobalMaxPool2D();
};
// The mean of each channel: (batch, channels, 1, 1).
struct GlobalAvgPool2D : detail::Pool<GlobalAvgPool2D> {
  GlobalAvgPool2D();
};

}  // namespace kaon::gluon::nn
