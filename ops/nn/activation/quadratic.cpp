#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/math/scalar_math.h"
#include "kaon/ops/nn/activation/activation.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
void values(const op::Quadratic& op, const T* x, T* y, size_t n) {
  const T a = T(op.a), b = T(op.b), c = T(op.c);
  for (size_t i = 0; i < n; ++i) y[i] = quadratic_value(x[i], a, b, c);
}

void tile(const void* attrs, const float* const* in, float* out, size_t n) {
  values(*static_cast<const op::Quadratic*>(attrs), in[0], out, n);
}

}  // namespace

constinit const OpDef op::Quadratic::def = make_op_def<op::Quadratic>();

void op::Quadratic::infer(InferContext& context) const {
  context.expect_floating();
  context.set_output(context.shape(0), context.dtype());
}

void op::Quadratic::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, g.head() * (2 * a * g.input(0) + b));
}

FusedForms op::Quadratic::fused_forms(const RegisterKernels&) const { return {{}, &tile}; }

std::optional<CudaExpression> op::Quadratic::cuda_expression(const ExpressionArgs& args) const {
  const std::string last = args.dtype == DType::float64 ? cuda_literal(c) : cuda_literal(float(c));
  return two_number_expression("quadratic_value", args, a, b, ", " + last);
}

void run_cpu(const op::Quadratic& op, KernelContext& c) {
  static constexpr PointwiseKernels kernels{
      .float32 = &tile, .float64 = [](const void* attrs, const void* const* in, void* out, size_t n) {
        values(*static_cast<const op::Quadratic*>(attrs), static_cast<const double*>(in[0]), static_cast<double*>(out),
               n);
      }};
  run_pointwise(kernels, &op, c);
}

}  // namespace kaon
