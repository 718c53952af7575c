#include "kaon/ops/elementwise/elementwise.h"

#include <fmt/format.h>

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/strided_copy.h"
#include "kaon/ops/math/convert_values.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

using namespace ops;
constinit const OpDef op::Cast::def = make_op_def<op::Cast>();

void op::Cast::infer(InferContext& c) const { c.set_output(c.shape(0), dtype); }

void op::Cast::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, nd.cast(g.head(), g.input_like(0).dtype()));
}

FusedForms op::Cast::fused_forms(const RegisterKernels& k) const { return fused_unary(UnaryKind::identity, k); }

std::optional<CudaExpression> op::Cast::cuda_expression(const ExpressionArgs& a) const {
  if (a.dtypes[0] == dtype) return CudaExpression(a.in[0], true);
  return CudaExpression(fmt::format("{}(convert<{}>({}))", a.type(), cuda_element_type(dtype), a.in[0]), true);
}

void run_cpu(const op::Cast&, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  if (in.dtype == out.dtype) return copy_bytes(c.run, in.data, out.data, out.bytes());
  const size_t from = size_of(in.dtype), to = size_of(out.dtype);
  c.run.parallel_for(in.size(), pointwise_grain, [&](int64_t begin, int64_t end) {
    convert_values(in.dtype, in.as<char>() + size_t(begin) * from, out.dtype, out.as<char>() + size_t(begin) * to,
                   size_t(end - begin));
  });
}

}  // namespace kaon
