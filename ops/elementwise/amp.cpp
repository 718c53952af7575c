// Casts of mixed precision.
#include <fmt/format.h>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/elementwise/elementwise.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::AmpCast::def = make_op_def<op::AmpCast>();
constinit const OpDef op::AmpMulticast::def = make_op_def<op::AmpMulticast>();

static bool is_cast(DType t) { return is_floating(t) && size_of(t) <= 4; }

void op::AmpCast::infer(InferContext& c) const {
  if (!is_cast(dtype)) c.fail_value(fmt::format("dtype must be float16, bfloat16 or float32, got {}", name_of(dtype)));
  c.set_output(c.shape(0), is_cast(c.dtype()) ? dtype : c.dtype());
}

void op::AmpCast::compose(ComposeContext& c) const { c.set(in_dtype(c.input(), c.output().dtype)); }

void op::AmpMulticast::infer(InferContext& c) const {
  if (num_outputs < 1) c.fail_value(fmt::format("num_outputs must be at least 1, got {}", num_outputs));
  std::optional<DType> common;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const DType t = c.dtype(i);
    if (!is_cast(t)) continue;
    const bool is_better = !common || (cast_narrow ? size_of(t) < size_of(*common) : size_of(t) > size_of(*common));
    if (is_better) common = t;
  }
  for (int i = 0; i < c.num_inputs(); ++i) {
    c.set_output(i, c.shape(i), is_cast(c.dtype(i)) ? *common : c.dtype(i));
  }
}

void op::AmpMulticast::compose(ComposeContext& c) const {
  for (int i = 0; i < c.num_inputs(); ++i) {
    c.set(i, in_dtype(c.input(i), c.output(i).dtype));
  }
}

}  // namespace kaon
