// glu on CUDA: a thread for each element of the result.
#include "kaon/ops/kernels/index_list.cuh"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/activation/activation.h"
#include "kaon/ops/nn/activation/kernels/shape_value.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
struct GatedElement {
  cuda::FastDivide run;  // so many elements, then as many gates
  const T* x;
  T* y;
  __device__ void operator()(int64_t i) const {
    using A = accumulate_t<T>;
    const T* const a = x + run.quotient(i) * run.divisor() + i;
    y[i] = T(glu_value(A(a[0]), A(a[run.divisor()])));
  }
};

}  // namespace

void run_cuda(const op::Glu& op, KernelContext& c) {
  const Shape& out = c.out().shape;
  if (out.size() == 0) return;
  const int64_t m = out.product(normalize_axis(op.axis, out.ndim(), "glu"), out.ndim());
  dispatch_float("glu", c.out().dtype, [&]<class T>() {
    cuda::for_each(c, out.size(), GatedElement<T>{cuda::FastDivide(m), c.in(0).as<const T>(), c.out().as<T>()});
  });
}

}  // namespace kaon
