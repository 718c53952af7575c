#include "kaon/mxnet/table/boolean_mask.h"

#include "kaon/ops/functions.h"

namespace kaon::mxnet {

constinit const OpDef BooleanMask::def = make_op_def<BooleanMask>();

void BooleanMask::infer(InferContext& c) const {
  c.fail_value("the shape of its result depends on values: it works on arrays and in hybridized blocks");
}

void BooleanMask::compose(ComposeContext&) const {}

NDArray BooleanMask::call(const NDArray& data, const NDArray& index) const {
  return nd.boolean_mask(In<NDArray>(data, no_site), In<NDArray>(index, no_site), int(axis));
}

}  // namespace kaon::mxnet
