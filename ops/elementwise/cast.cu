// Cast on CUDA.
#include "kaon/ops/elementwise/elementwise.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/math/convert.h"
#include "kaon/ops/math/dispatch_cast.h"

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
  dispatch_cast(
      "Cast", in.dtype, out.dtype,
      [&]<class From, class To>() {
        cuda::elementwise(c, out.size(), ConvertFn<To>{}, out.as<To>(), in.as<const From>());
      },
      [&] { cuda::copy_bytes(c, in.data, out.data, out.bytes()); });
}

}  // namespace kaon
