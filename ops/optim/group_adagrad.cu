// _contrib_group_adagrad_update on CUDA: a block for each row.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/optim/kernels/group_adagrad.h"

namespace kaon {

using namespace ops;
namespace {

template <class T>
__global__ void group_kernel(GroupAdagrad<accumulate_t<T>> rule, int64_t rows, int64_t width, T* weights,
                             const T* grads, T* history) {
  using A = accumulate_t<T>;
  __shared__ A parts[cuda::block];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T* const weight = weights + row * width;
    const T* const grad = grads + row * width;
    A own = 0;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) own += rule.square(A(grad[i]));
    parts[threadIdx.x] = own;
    __syncthreads();
    for (unsigned half = cuda::block / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
      __syncthreads();
    }
    const A updated = A(history[row]) + parts[0] / A(width), rate = rule.rate(updated);
    __syncthreads();
    if (threadIdx.x == 0) history[row] = T(updated);
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
      weight[i] = T(A(weight[i]) - rate * rule.clipped(A(grad[i])));
    }
  }
}

}  // namespace

void run_cuda(const op::GroupAdagradUpdate& op, KernelContext& c) {
  const int64_t rows = c.in(2).size(), width = rows == 0 ? 0 : c.in(0).size() / rows;
  if (width == 0) return;
  dispatch_float("_contrib_group_adagrad_update", c.in(0).dtype, [&]<class T>() {
    cuda::launch(c, group_kernel<T>, unsigned(rows < 65536 ? rows : 65536), unsigned(cuda::block),
                 GroupAdagrad<accumulate_t<T>>(op), rows, width, c.in(0).as<T>(), c.in(1).as<T>(), c.in(2).as<T>());
  });
}

}  // namespace kaon
