// Comparisons with bool results, made of those with results of the arrays' dtype.
#include "kaon/ops/functions.h"
#include "kaon/ops/numeric/numeric.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

template <Comparison K>
constinit const OpDef op::Compare<K>::def = make_op_def<op::Compare<K>>();
template <Comparison K>
constinit const OpDef op::CompareNumber<K>::def = make_op_def<op::CompareNumber<K>>();
constinit const OpDef op::NumpyLogicalNot::def = make_op_def<op::NumpyLogicalNot>();

template struct op::Compare<Comparison::equal>;
template struct op::Compare<Comparison::not_equal>;
template struct op::Compare<Comparison::greater>;
template struct op::Compare<Comparison::greater_equal>;
template struct op::Compare<Comparison::less>;
template struct op::Compare<Comparison::less_equal>;
template struct op::CompareNumber<Comparison::equal>;
template struct op::CompareNumber<Comparison::not_equal>;
template struct op::CompareNumber<Comparison::greater>;
template struct op::CompareNumber<Comparison::greater_equal>;
template struct op::CompareNumber<Comparison::less>;
template struct op::CompareNumber<Comparison::less_equal>;

namespace {

NDArray compared(Comparison kind, const NDArray& a, const Arg<NDArray>& b) {
  switch (kind) {
    case Comparison::equal: return nd.equal(a, b);
    case Comparison::not_equal: return nd.not_equal(a, b);
    case Comparison::greater: return nd.greater(a, b);
    case Comparison::greater_equal: return nd.greater_equal(a, b);
    case Comparison::less: return nd.lesser(a, b);
    default: return nd.lesser_equal(a, b);
  }
}

}  // namespace

namespace ops {

void infer_comparison(InferContext& c) {
  c.expect_same_dtype();
  c.set_output(c.num_inputs() == 1 ? c.shape(0) : broadcast_shapes(c.shape(0), c.shape(1), c.op()), DType::boolean);
}

void compose_comparison(Comparison kind, ComposeContext& c) {
  c.set(nd.cast(compared(kind, c.input(0), c.input(1)), DType::boolean));
}

void compose_comparison(Comparison kind, double scalar, ComposeContext& c) {
  c.set(nd.cast(compared(kind, c.input(0), scalar), DType::boolean));
}

}  // namespace ops

}  // namespace kaon
