// Dropout on CUDA: the elements that the CPU drops.
#include "kaon/ops/nn/activation/activation.h"

#include "kaon/ops/cuda/elementwise.cuh"
#include "kaon/ops/cuda/random.cuh"
#include "kaon/ops/init/init.h"
#include "kaon/ops/init/kernels/fill_value.h"
#include "kaon/ops/random/kernels/random_math.h"

namespace kaon {

using namespace ops;
namespace {

// mask, and y = x * mask; either of mask and (x, y) may be null.
template <class T>
struct DropFn {
  using A = accumulate_t<T>;
  uint32_t threshold;
  A kept;
  const T* x;
  T *y, *mask;
  int64_t n;
  bool aligned;
  __device__ void operator()(int64_t block, const Philox4& words) const {
    const int64_t at = block * 4;
    const bool whole = aligned && at + 4 <= n;
    cuda::Pack<T, 4> factor;
#pragma unroll
    for (int j = 0; j < 4; ++j) factor.v[j] = T(words.v[j] < threshold ? A(0) : kept);
    if (mask) cuda::store_pack(mask, at, n, whole, factor);
    if (!x) return;
    cuda::Pack<T, 4> value = cuda::load_pack<4>(x, at, n, whole);
#pragma unroll
    for (int j = 0; j < 4; ++j) value.v[j] = T(A(value.v[j]) * (words.v[j] < threshold ? A(0) : kept));
    cuda::store_pack(y, at, n, whole, value);
  }
};

struct MultiplyFn {
  template <class T>
  __device__ T operator()(T x, T mask) const {
    return x * mask;
  }
};

}  // namespace

void run_cuda(const op::Dropout& op, KernelContext& c) {
  const TensorView &x = c.in(0), &y = c.out();
  TensorView mask{c.out(1).data, op.mask_shape(x.shape), x.dtype};  // data is null if it is not wanted
  if (op.p == 0 || (!c.training && op.mode == DropoutMode::training)) {
    if (mask.data) fill_cuda(mask, 1, c);
    return cuda::copy_bytes(c, x.data, y.data, y.bytes());
  }
  const bool shared = mask.shape != x.shape;
  if (shared && !mask.data && mask.size() > 0) mask.data = c.run.workspace(mask.bytes());
  dispatch_float("Dropout", x.dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    const T* data = shared ? nullptr : x.as<const T>();
    const bool aligned =
        cuda::is_aligned<4>(data) && cuda::is_aligned<4>(y.as<T>()) && cuda::is_aligned<4>(mask.as<T>());
    cuda::for_random_blocks(c, mask.size(), 4,
                            DropFn<T>{dropout_threshold(op.p), dropout_factor<A>(op.p), data, y.as<T>(), mask.as<T>(),
                                      mask.size(), aligned});
    if (!shared) return;
    cuda::broadcast(c, MultiplyFn{}, x.shape, y.as<T>(), {&x.shape, &mask.shape}, x.as<const T>(), mask.as<const T>());
  });
}

}  // namespace kaon
