#include "kaon/ops/elementwise/elementwise.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/elementwise/kernels/select_kernels.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/math/scalar_math.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
void add_typed(const void* attrs, const void* const* in, void* out, size_t n) {
  const int inputs = static_cast<const op::AddN*>(attrs)->num_args;
  T* y = static_cast<T*>(out);
  for (size_t i = 0; i < n; ++i) {
    T sum = static_cast<const T*>(in[0])[i];
    for (int k = 1; k < inputs; ++k) sum = binary_value<BinaryKind::add, T>(sum, static_cast<const T*>(in[k])[i]);
    y[i] = sum;
  }
}

PointwiseKernels kernels() {
  PointwiseKernels k{.float32 = select_tiles().add_n, .float64 = &add_typed<double>};
  k.set_integers<true>([]<class T>() -> TypedFn { return &add_typed<T>; });
  return k;
}

// 16-bit floats: any number of inputs, rounded once.
void add_halves(KernelContext& c) {
  const auto widen = half_to_float32(c.out().dtype);
  const auto narrow = float32_to_half(c.out().dtype);
  const TileFn add = select_tiles().add_n;
  c.run.parallel_for(c.out().size(), pointwise_grain, [&](int64_t begin, int64_t end) {
    alignas(64) float sum[pointwise_tile], next[pointwise_tile];
    const op::AddN two{.num_args = 2};
    const float* both[] = {sum, next};
    for (int64_t i = begin; i < end; i += int64_t(pointwise_tile)) {
      const size_t n = std::min(pointwise_tile, size_t(end - i));
      widen(c.in(0).as<uint16_t>() + i, sum, n);
      for (int k = 1; k < c.num_inputs(); ++k) {
        widen(c.in(k).as<uint16_t>() + i, next, n);
        add(&two, both, sum, n);
      }
      narrow(sum, c.out().as<uint16_t>() + i, n);
    }
  });
}

}  // namespace

constinit const OpDef op::AddN::def = make_op_def<op::AddN>();

void op::AddN::infer(InferContext& c) const {
  if (num_args < 1 || c.num_inputs() != num_args) {
    c.fail_value(fmt::format("num_args must be the number of inputs and at least 1, got {} for {} inputs", num_args,
                             c.num_inputs()));
  }
  c.expect_same_dtype();
  if (c.dtype() == DType::boolean) c.fail_dtype("needs a dtype of numbers, got bool; use cast");
  for (int i = 1; i < num_args; ++i) c.expect_shape(i, c.shape(0));
  c.set_output(c.shape(0), c.dtype());
}

void op::AddN::grad(GradContext& g) const {
  for (int i = 0; i < num_args; ++i) {
    if (g.wants(i)) g.set(i, g.head());
  }
}

FusedForms op::AddN::fused_forms(const RegisterKernels& k) const {
  FusedForms forms{k.binary[size_t(BinaryKind::add)]};
  forms.sums = true;
  return forms;
}

std::optional<CudaExpression> op::AddN::cuda_expression(const ExpressionArgs& a) const {
  std::string sum = a.in[0];
  for (size_t i = 1; i < a.in.size(); ++i) sum = binary_expression(BinaryKind::add, a.type(), sum, a.in[i]);
  return sum;
}

void run_cpu(const op::AddN& op, KernelContext& c) {
  const DType dtype = c.out().dtype;
  if (c.out().size() == 0) return;
  if (dtype == DType::float16 || dtype == DType::bfloat16) return add_halves(c);
  const void* in[max_pointwise_inputs];
  for (int done = 0; done < op.num_args;) {  // later rounds add to the sum so far
    int n = 0;
    if (done > 0) in[n++] = c.out().data;
    while (n < max_pointwise_inputs && done < op.num_args) in[n++] = c.in(done++).data;
    const op::AddN round{.num_args = n};
    run_pointwise(kernels(), &round, dtype, in, n, c.out().data, c.out().size(), c.run);
  }
}

}  // namespace kaon
