#include "kaon/graph/plan_ops/rematerialize_batch_norm.h"

#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/nn/norm/kernels/norm_kernels.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace graph;

constinit const OpDef op::RematerializeBatchNorm::def = make_op_def<op::RematerializeBatchNorm>();

void run_cpu(const op::RematerializeBatchNorm& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    normalize_channels(c.run, channel_sizes(c.in(0), op.axis), c.in(0).template as<T>(), c.in(3).template as<T>(),
                       c.in(4).template as<T>(), op.fix_gamma ? nullptr : c.in(1).template as<T>(),
                       c.in(2).template as<T>(), c.out().template as<T>());
  });
}

}  // namespace kaon
