// Pooling layers: x (batch, channels, width), (batch, channels, height, width) or (batch, channels, depth, height,
// width); with layout NWC, NHWC or NDHWC the axis of channels is the last.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon::nn {

// Window sizes of one number hold for every axis.
struct MaxPoolOptions {
  Shape pool_size{2};
  Shape strides{};  // empty: pool_size
  Shape padding{0};
  bool ceil_mode = false;  // round the number of windows up instead of down
  std::optional<ConvLayout> layout{};
};
struct AvgPoolOptions {
  Shape pool_size{2};
  Shape strides{};
  Shape padding{0};
  bool ceil_mode = false;
  bool count_include_pad = true;  // divide by the size of the window rather than by its elements inside the data
  std::optional<ConvLayout> layout{};
};
struct GlobalPoolOptions {
  std::optional<ConvLayout> layout{};
};
static_assert(std::is_trivially_destructible_v<MaxPoolOptions> && std::is_trivially_destructible_v<AvgPoolOptions>);

namespace detail {

KAON_API op::Pooling pooling(int axes, const MaxPoolOptions& options);  // throw ValueError for sizes that do not fit
KAON_API op::Pooling pooling(int axes, const AvgPoolOptions& options);
KAON_API op::Pooling global_pooling(int axes, PoolType type, const GlobalPoolOptions& options);

template <class Derived>
class Pool : public HybridBlock<Derived> {
 public:
  auto hybrid_forward(auto F, auto x) { return F.as("fwd").Pooling(x, op_); }

 protected:
  explicit Pool(const op::Pooling& op) : HybridBlock<Derived>("pool"), op_(op) {}

 private:
  op::Pooling op_;
};

}  // namespace detail

// The maximum of each window; (size + 2 padding - pool_size) / strides + 1 windows per axis.
struct MaxPool1D : detail::Pool<MaxPool1D> {
  explicit MaxPool1D(const MaxPoolOptions& options = {}) : Pool(detail::pooling(1, options)) {}
};
struct MaxPool2D : detail::Pool<MaxPool2D> {
  explicit MaxPool2D(const MaxPoolOptions& options = {}) : Pool(detail::pooling(2, options)) {}
};
struct MaxPool3D : detail::Pool<MaxPool3D> {
  explicit MaxPool3D(const MaxPoolOptions& options = {}) : Pool(detail::pooling(3, options)) {}
};

// The mean of each window.
struct AvgPool1D : detail::Pool<AvgPool1D> {
  explicit AvgPool1D(const AvgPoolOptions& options = {}) : Pool(detail::pooling(1, options)) {}
};
struct AvgPool2D : detail::Pool<AvgPool2D> {
  explicit AvgPool2D(const AvgPoolOptions& options = {}) : Pool(detail::pooling(2, options)) {}
};
struct AvgPool3D : detail::Pool<AvgPool3D> {
  explicit AvgPool3D(const AvgPoolOptions& options = {}) : Pool(detail::pooling(3, options)) {}
};

// The maximum of each channel; every spatial axis becomes 1.
struct GlobalMaxPool1D : detail::Pool<GlobalMaxPool1D> {
  explicit GlobalMaxPool1D(const GlobalPoolOptions& options = {})
      : Pool(detail::global_pooling(1, PoolType::max, options)) {}
};
struct GlobalMaxPool2D : detail::Pool<GlobalMaxPool2D> {
  explicit GlobalMaxPool2D(const GlobalPoolOptions& options = {})
      : Pool(detail::global_pooling(2, PoolType::max, options)) {}
};
struct GlobalMaxPool3D : detail::Pool<GlobalMaxPool3D> {
  explicit GlobalMaxPool3D(const GlobalPoolOptions& options = {})
      : Pool(detail::global_pooling(3, PoolType::max, options)) {}
};

// The mean of each channel; every spatial axis becomes 1.
struct GlobalAvgPool1D : detail::Pool<GlobalAvgPool1D> {
  explicit GlobalAvgPool1D(const GlobalPoolOptions& options = {})
      : Pool(detail::global_pooling(1, PoolType::avg, options)) {}
};
struct GlobalAvgPool2D : detail::Pool<GlobalAvgPool2D> {
  explicit GlobalAvgPool2D(const GlobalPoolOptions& options = {})
      : Pool(detail::global_pooling(2, PoolType::avg, options)) {}
};
struct GlobalAvgPool3D : detail::Pool<GlobalAvgPool3D> {
  explicit GlobalAvgPool3D(const GlobalPoolOptions& options = {})
      : Pool(detail::global_pooling(3, PoolType::avg, options)) {}
};

}  // namespace gluon::nn
}  // namespace kaon
