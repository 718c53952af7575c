// Cast on CUDA.
#include "kaon/ops/elementwise/elementwise.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/math/convert.h"

namespace kaon {

using namespace ops;
namespace {

template <class To>
struct ConvertFn {
  template <class From>
  __device__ To operator()(From x) const {
    return convert<To>(x);
  }
};

}  // namespace

void run_cuda(const op::Cast&, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  if (in.dtype == out.dtype) return cuda::copy_bytes(c, in.data, out.data, out.bytes());
  dispatch_all("Cast", in.dtype, [&]<class From>() {
    dispatch_all("Cast", out.dtype, [&]<class To>() {
      cuda::elementwise(c, out.size(), ConvertFn<To>{}, out.as<To>(), in.as<const From>());
    });
  });
}

}  // namespace kaon
