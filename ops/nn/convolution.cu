#include "kaon/ops/nn/convolution.h"

#include <algorithm>

#include "kaon/ops/cuda/dnn.h"
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/dispatch.h"

namespace kaon {
namespace {

using cuda::block;
using cuda::warp;

// Part `part` of the sum of dy's channel `channel`, for block channel * parts + part.
template <class T>
__global__ void sum_parts(const T* dy, accumulate_t<T>* sums, int64_t count, int64_t channels, int64_t positions,
                          int64_t parts) {
  using A = accumulate_t<T>;
  __shared__ A of_warp[block / warp];
  const int64_t channel = blockIdx.x / parts, part = blockIdx.x % parts;
  const int64_t each = (count + parts - 1) / parts, end = min(count, (part + 1) * each);
  A sum = 0;
  for (int64_t i = part * each + threadIdx.x; i < end; i += block) {
    const int64_t image = count <= UINT32_MAX ? uint32_t(i) / uint32_t(positions) : i / positions;
    sum += A(dy[(image * channels + channel - image) * positions + i]);
  }
  for (int step = warp / 2; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
  if (threadIdx.x % warp == 0) of_warp[threadIdx.x / warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < block / warp; ++i) sum += of_warp[i];
  sums[blockIdx.x] = sum;
}

template <class T>
struct SumOfParts {
  const accumulate_t<T>* sums;
  T* db;
  int64_t parts;
  __device__ void operator()(int64_t channel) const {
    accumulate_t<T> sum = 0;
    for (int64_t i = 0; i < parts; ++i) sum += sums[channel * parts + i];
    db[channel] = T(sum);
  }
};

// db = the sums of dy's channels, in an order that the sizes fix.
void bias_gradient(KernelContext& c, const TensorView& dy, void* db) {
  const int64_t channels = dy.shape[1], positions = dy.shape.product(2, dy.shape.ndim());
  const int64_t count = dy.shape[0] * positions;
  // enough blocks for the device, each with something to do for all its threads
  const int64_t parts = std::clamp<int64_t>(1024 / channels, 1, std::max<int64_t>(1, count / (8 * block)));
  dispatch_float("Convolution", dy.dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    A* sums = static_cast<A*>(c.run.workspace(size_t(channels * parts) * sizeof(A)));
    cuda::launch(c, sum_parts<T>, unsigned(channels * parts), unsigned(block), dy.as<T>(), sums, count, channels,
                 positions, parts);
    cuda::for_each(c, channels, SumOfParts<T>{sums, static_cast<T*>(db), parts});
  });
}

}  // namespace

template <ConvPart P>
void run_cuda(const ConvolutionOp<P>& op, KernelContext& c) {
  const auto setup = [&](const TensorView& in, const TensorView& out) {
    return cuda::ConvSetup{
        .geometry = make_geometry(in.shape, out.shape, op.kernel, op.stride, op.dilate, op.pad, op.num_group),
        .dtype = in.dtype,
        .workspace = op.workspace};
  };
  if constexpr (P == ConvPart::forward) {
    cuda::conv_forward(c, setup(c.in(0), c.out()), c.in(0).data, c.in(1).data, c.out().data,
                       layer_epilogue<void>(c, op.no_bias, op.fused));
  } else if constexpr (P == ConvPart::backward_data) {
    cuda::conv_backward_data(c, setup(c.out(), c.in(0)), c.in(0).data, c.in(1).data, c.out().data);
  } else {
    if (c.out(0).data) {
      cuda::conv_backward_weight(c, setup(c.in(1), c.in(0)), c.in(0).data, c.in(1).data, c.out(0).data);
    }
    if (!op.no_bias && c.out(1).data) bias_gradient(c, c.in(0), c.out(1).data);
  }
}

template void run_cuda(const Convolution&, KernelContext&);
template void run_cuda(const ConvolutionBackwardData&, KernelContext&);
template void run_cuda(const ConvolutionBackwardWeight&, KernelContext&);

}  // namespace kaon
