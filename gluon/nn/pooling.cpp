#include "kaon/gluon/nn/pooling.h"

#include "kaon/gluon/nn/conv.h"

namespace kaon::gluon::nn::detail {
namespace {

template <class Options>
kaon::Pooling windows(PoolType type, int axes, const Options& o) {
  kaon::Pooling op{.kernel = window(o.pool_size, axes, 1, "Pool pool_size"), .pool_type = type};
  op.pooling_convention = o.ceil_mode ? PoolingConvention::full : PoolingConvention::valid;
  op.stride = o.strides.empty() ? op.kernel : window(o.strides, axes, 1, "Pool strides");
  op.pad = window(o.padding, axes, 0, "Pool padding");
  return op;
}

}  // namespace

kaon::Pooling pooling(int axes, const MaxPoolOptions& options) { return windows(PoolType::max, axes, options); }

kaon::Pooling pooling(int axes, const AvgPoolOptions& options) {
  kaon::Pooling op = windows(PoolType::avg, axes, options);
  op.count_include_pad = options.count_include_pad;
  return op;
}

kaon::Pooling global_pooling(int axes, PoolType type) {
  return {.kernel = Shape::filled(axes, 1), .pool_type = type, .global_pool = true};
}

}  // namespace kaon::gluon::nn::detail
