#include "kaon/ops/elementwise/elementwise.h"

#include <fmt/format.h>

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/elementwise/kernels/polygamma_value.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
void values(const op::Polygamma& op, const T* x, T* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = T(polygamma_value(op.n, double(x[i])));
}

void polygamma_tile(const void* attrs, const float* const* in, float* out, size_t n) {
  values(*static_cast<const op::Polygamma*>(attrs), in[0], out, n);
}

}  // namespace

constinit const OpDef op::Polygamma::def = make_op_def<op::Polygamma>();

void op::Polygamma::infer(InferContext& c) const {
  c.expect_floating();
  if (n < 1 || n > 100) c.fail_value(fmt::format("n must be 1 to 100, got {}; 0 is digamma", n));
  c.set_output(c.shape(0), c.dtype());
}

void op::Polygamma::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, g.head() * nd.polygamma(g.input(0), {.n = n + 1}));
}

FusedForms op::Polygamma::fused_forms(const RegisterKernels&) const { return {{}, &polygamma_tile}; }

std::optional<CudaExpression> op::Polygamma::cuda_expression(const ExpressionArgs& a) const {
  return fmt::format("{}(polygamma_value({}, double({})))", a.type(), n, a.in[0]);
}

void run_cpu(const op::Polygamma& op, KernelContext& c) {
  static constexpr PointwiseKernels kernels{
      .float32 = &polygamma_tile, .float64 = [](const void* attrs, const void* const* in, void* out, size_t n) {
        values(*static_cast<const op::Polygamma*>(attrs), static_cast<const double*>(in[0]), static_cast<double*>(out),
               n);
      }};
  run_pointwise(kernels, &op, c);
}

}  // namespace kaon
