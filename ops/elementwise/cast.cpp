#include "kaon/ops/elementwise/elementwise.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/strided_copy.h"
#include "kaon/ops/math/convert.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

using namespace ops;
namespace {

// A tile of one dtype to another; 16-bit floats go through float32, whose conversions are vectors.
template <class To, class From>
void convert_tile(const From* from, To* to, size_t n) {
  if constexpr (is_half_type<From>) {
    float wide[pointwise_tile];
    half_to_float32(dtype_of<From>)(from, wide, n);
    convert_tile<To, float>(wide, to, n);
  } else if constexpr (is_half_type<To> && !std::is_same_v<From, float>) {
    float wide[pointwise_tile];
    for (size_t i = 0; i < n; ++i) wide[i] = before_half(from[i]);
    convert_tile<To, float>(wide, to, n);
  } else if constexpr (is_half_type<To>) {
    float32_to_half(dtype_of<To>)(from, to, n);
  } else {
    for (size_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
  }
}

}  // namespace

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
  dispatch_all("Cast", in.dtype, [&]<class From>() {
    dispatch_all("Cast", out.dtype, [&]<class To>() {
      c.run.parallel_for(in.size(), pointwise_grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i += int64_t(pointwise_tile)) {
          convert_tile<To, From>(in.as<From>() + i, out.as<To>() + i, std::min(pointwise_tile, size_t(end - i)));
        }
      });
    });
  });
}

}  // namespace kaon
