// Operators that ask or set something of many arrays, on CUDA.
#include "kaon/ops/init/init.h"
#include "kaon/ops/init/kernels/fill_value.h"
#include "kaon/ops/optim/kernels/adapted_rate.h"
#include "kaon/ops/optim/kernels/tensor_list.cuh"

namespace kaon {

using namespace ops;
namespace {

// *finite = 0 if any element is not; every thread that writes writes the same.
template <class T>
__global__ void find_kernel(cuda::TensorList<1> list, float* finite) {
  using A = accumulate_t<T>;
  constexpr int N = 16 / int(sizeof(T));
  const int tensor = list.tensor();
  const int64_t begin = list.begin(tensor), n = list.size[tensor];
  const int64_t end = begin + cuda::list_part < n ? begin + cuda::list_part : n;
  const T* from = static_cast<const T*>(list.array[tensor][0]);
  bool all = true;
  for (int64_t at = begin + int64_t(threadIdx.x) * N; at < end; at += int64_t(blockDim.x) * N) {
    const cuda::Pack<T, N> x = cuda::load_pack<N>(from, at, n, list.aligned[tensor] && at + N <= n);
#pragma unroll
    for (int j = 0; j < N; ++j) all = all && A(x.v[j]) * A(0) == A(0);  // 0 x is NaN for the others
  }
  if (!all) *finite = 0;
}

template <class T>
void find(KernelContext& c) {
  cuda::TensorList<1> list;
  const auto flush = [&] {
    if (list.blocks() > 0) {
      cuda::launch(c, find_kernel<T>, list.blocks(), unsigned(cuda::block), list, c.out().as<float>());
    }
    list = {};
  };
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.in(i).dtype != dtype_of<T>) continue;
    list.add(i, c.in(i).size(), &c.in(i).data);
    if (list.is_full()) flush();
  }
  flush();
}

void find_finite(KernelContext& c) {
  fill_cuda(c.out(), 1, c);
  find<float>(c);
  find<double>(c);
  find<float16>(c);
  find<bfloat16>(c);
}

template <class T>
__global__ void add_kernel(cuda::TensorList<2> list) {
  using A = accumulate_t<T>;
  constexpr int N = 16 / int(sizeof(T));
  const int tensor = list.tensor();
  const int64_t begin = list.begin(tensor), n = list.size[tensor];
  const int64_t end = begin + cuda::list_part < n ? begin + cuda::list_part : n;
  T* to = static_cast<T*>(list.array[tensor][0]);
  const T* from = static_cast<const T*>(list.array[tensor][1]);
  for (int64_t at = begin + int64_t(threadIdx.x) * N; at < end; at += int64_t(blockDim.x) * N) {
    const bool whole = list.aligned[tensor] && at + N <= n;
    cuda::Pack<T, N> sum = cuda::load_pack<N>(static_cast<const T*>(to), at, n, whole);
    const cuda::Pack<T, N> value = cuda::load_pack<N>(from, at, n, whole);
#pragma unroll
    for (int j = 0; j < N; ++j) sum.v[j] = T(A(sum.v[j]) + A(value.v[j]));
    cuda::store_pack(to, at, n, whole, sum);
  }
}

template <class T>
void add(KernelContext& c) {
  cuda::TensorList<2> list;
  const auto flush = [&] {
    if (list.blocks() > 0) cuda::launch(c, add_kernel<T>, list.blocks(), unsigned(cuda::block), list);
    list = {};
  };
  for (int i = 0; i < c.num_inputs(); i += 2) {
    if (c.in(i).dtype != dtype_of<T>) continue;
    void* const arrays[] = {c.in(i).data, c.in(i + 1).data};
    list.add(i, c.in(i).size(), arrays);
    if (list.is_full()) flush();
  }
  flush();
}

struct LarsRate {
  op::MultiLars op;
  const float *lrs, *weights, *grads, *wds;
  float* out;
  __device__ void operator()(int64_t i) const { out[i] = lars_rate(op, lrs[i], wds[i], weights[i], grads[i]); }
};

}  // namespace

void run_cuda(const op::AllFinite&, KernelContext& c) { find_finite(c); }
void run_cuda(const op::MultiAllFinite&, KernelContext& c) { find_finite(c); }

void run_cuda(const op::MultiLars& op, KernelContext& c) {
  cuda::for_each(c, c.out().size(),
                 LarsRate{op, c.in(0).as<float>(), c.in(1).as<float>(), c.in(2).as<float>(), c.in(3).as<float>(),
                          c.out().as<float>()});
}

void run_cuda(const op::ResetArrays&, KernelContext& c) {
  for (const TensorView& x : c.inputs) cuda::zero_bytes(c, x.data, x.bytes());
}

void run_cuda(const op::MultiAdd&, KernelContext& c) {
  add<float>(c);
  add<double>(c);
  add<float16>(c);
  add<bfloat16>(c);
}

}  // namespace kaon
