#include "kaon/gluon/nn/pooling.h"

#include "kaon/gluon/nn/conv.h"

namespace kaon::gluon::nn {
namespace {

template <class Options>
kaon::Pooling windows(PoolType type, const Options& o) {
  kaon::Pooling op{.kernel = detail::window(o.pool_size, 2, 1, "Pool2D pool_size"), .pool_type = type};
  op.pooling_convention = o.ceil_mode ? PoolingConvention::full : PoolingConvention::valid;
  op.stride = o.strides.empty() ? op.kernel : detail::window(o.strides, 2, 1, "Pool2D strides");
  op.pad = detail::window(o.padding, 2, 0, "Pool2D padding");
  if constexpr (requires { o.count_include_pad; }) op.count_include_pad = o.count_include_pad;
  return op;
}

kaon::Pooling global(PoolType type) { return {.kernel = {1, 1}, .pool_type = type, .global_pool = true}; }

}  // namespace

MaxPool2D::MaxPool2D(const MaxPool2DOptions& options) : Pool(windows(PoolType::max, options)) {}
AvgPool2D::AvgPool2D(const AvgPool2DOptions& options) : Pool(windows(PoolType::avg, options)) {}
GlobalMaxPool2D::GlobalMaxPool2D() : Pool(global(PoolType::max)) {}
GlobalAvgPool2D::GlobalAvgPool2D() : Pool(global(PoolType::avg)) {}

}  // namespace kaon::gluon::nn
