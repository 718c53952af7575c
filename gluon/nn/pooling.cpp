#include "kaon/gluon/nn/pooling.h"

#include "kaon/gluon/nn/conv.h"

namespace kaon::gluon::nn::detail {
namespace {

template <class Options>
op::Pooling windows(PoolType type, int axes, const Options& o) {
  op::Pooling op{.kernel = window(o.pool_size, axes, 1, "Pool pool_size"), .pool_type = type};
  op.pooling_convention = o.ceil_mode ? PoolingConvention::full : PoolingConvention::valid;
  op.stride = o.strides.empty() ? op.kernel : window(o.strides, axes, 1, "Pool strides");
  op.pad = window(o.padding, axes, 0, "Pool padding");
  op.layout = layout(o.layout, axes, "Pool");
  return op;
}

}  // namespace

op::Pooling pooling(int axes, const MaxPoolOptions& options) { return windows(PoolType::max, axes, options); }

op::Pooling pooling(int axes, const AvgPoolOptions& options) {
  op::Pooling op = windows(PoolType::avg, axes, options);
  op.count_include_pad = options.count_include_pad;
  return op;
}

op::Pooling global_pooling(int axes, PoolType type, const GlobalPoolOptions& options) {
  return {.kernel = Shape::filled(axes, 1),
          .pool_type = type,
          .global_pool = true,
          .layout = layout(options.layout, axes, "GlobalPool")};
}

}  // namespace kaon::gluon::nn::detail
