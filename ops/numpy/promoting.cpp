// Arithmetic that promotes; true_divide of two arrays.
#include <fmt/format.h>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/numeric/numeric.h"
#include "kaon/ops/numpy/numpy.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/promotion/promotion.h"

namespace kaon {

using namespace ops;

template <BinaryKind K>
constinit const OpDef op::PromotingBinary<K>::def = make_op_def<op::PromotingBinary<K>>();

namespace {
constexpr bool has_logic(BinaryKind kind) { return kind == BinaryKind::add || kind == BinaryKind::mul; }
}  // namespace

template <BinaryKind K>
void op::PromotingBinary<K>::infer(InferContext& c) const {
  const DType dtype = result_type(c.dtype(0), c.dtype(1));
  if (dtype == DType::boolean && !has_logic(K)) c.fail_dtype("needs a dtype of numbers, got two of bool; use cast");
  c.set_output(broadcast_shapes(c.shape(0), c.shape(1), c.op()), dtype);
}

template <BinaryKind K>
void op::PromotingBinary<K>::compose(ComposeContext& c) const {
  const DType dtype = c.output().dtype;
  const NDArray a = in_dtype(c.input(0), dtype), b = in_dtype(c.input(1), dtype);
  if (dtype != DType::boolean) return c.set(nd.call(Binary<K>{}, a, b));
  c.set(K == BinaryKind::add ? nd.broadcast_logical_or(a, b) : nd.broadcast_logical_and(a, b));
}

// --- true_divide

constinit const OpDef op::TrueDivide::def = make_op_def<op::TrueDivide>();

void op::TrueDivide::infer(InferContext& c) const {
  const DType common = result_type(c.dtype(0), c.dtype(1));
  c.set_output(broadcast_shapes(c.shape(0), c.shape(1), c.op()), is_floating(common) ? common : DType::float32);
}

void op::TrueDivide::compose(ComposeContext& c) const {
  const DType dtype = c.output().dtype;
  c.set(in_dtype(c.input(0), dtype) / in_dtype(c.input(1), dtype));
}

template struct op::PromotingBinary<BinaryKind::add>;
template struct op::PromotingBinary<BinaryKind::sub>;
template struct op::PromotingBinary<BinaryKind::mul>;
template struct op::PromotingBinary<BinaryKind::mod>;
template struct op::PromotingBinary<BinaryKind::power>;

}  // namespace kaon
