#include "kaon/ops/elementwise/elementwise.h"

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/elementwise/kernels/unary_kernels.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/math/scalar_math.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
void values(const op::HardSigmoid& op, const T* x, T* y, size_t n) {
  const T alpha = T(op.alpha), beta = T(op.beta);
  for (size_t i = 0; i < n; ++i) y[i] = hard_sigmoid_value(x[i], alpha, beta);
}

void hard_sigmoid_tile(const void* attrs, const float* const* in, float* out, size_t n) {
  const auto& op = *static_cast<const op::HardSigmoid*>(attrs);
  hard_sigmoid(in[0], out, n, float(op.alpha), float(op.beta));
}

}  // namespace

constinit const OpDef op::HardSigmoid::def = make_op_def<op::HardSigmoid>();

void op::HardSigmoid::infer(InferContext& c) const {
  c.expect_floating();
  c.set_output(c.shape(0), c.dtype());
}

void op::HardSigmoid::grad(GradContext& g) const {
  // alpha between the bounds, where 0 < y < 1
  if (g.wants(0)) g.set(0, g.head() * alpha * (g.output() > 0) * (g.output() < 1));
}

FusedForms op::HardSigmoid::fused_forms(const RegisterKernels&) const { return {{}, &hard_sigmoid_tile}; }

std::optional<CudaExpression> op::HardSigmoid::cuda_expression(const ExpressionArgs& a) const {
  return two_number_expression("hard_sigmoid_value", a, alpha, beta);
}

void run_cpu(const op::HardSigmoid& op, KernelContext& c) {
  static constexpr PointwiseKernels kernels{
      .float32 = &hard_sigmoid_tile, .float64 = [](const void* attrs, const void* const* in, void* out, size_t n) {
        values(*static_cast<const op::HardSigmoid*>(attrs), static_cast<const double*>(in[0]),
               static_cast<double*>(out), n);
      }};
  run_pointwise(kernels, &op, c);
}

}  // namespace kaon
